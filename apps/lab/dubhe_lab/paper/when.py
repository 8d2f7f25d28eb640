"""Beyond the paper: when balancing helps, by the federation's skew and the share K / N."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final, TypeAlias

from matplotlib.axes import Axes

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    columns,
)
from dubhe_lab.paper.trainings import digits_cell, gains, mean_gain
from dubhe_lab.report.picture import UNIFORM_COLOUR, Picture
from dubhe_lab.report.table import Table

_KIND: Final = "when"
_NUM_SEEDS: Final = 5
_CLIENTS: Final = 150
_RHOS: Final = {"full": (1.0, 3.0, 10.0), "small": (10.0,)}
_EMDS: Final = {"full": (0.5, 1.0, 1.5), "small": (0.5, 1.5)}
_PARTICIPANTS: Final = {"full": (8, 20, 60), "small": (8,)}
_METHODS: Final = tuple(map(Method, ("random", "powd", "dubhe")))
_AGAINST: Final = {"random": ("random", "-"), "powd": ("Power-of-Choice", "--")}
"""The methods to compare Dubhe with: label and line style."""
_LOOKS: Final = {1.0: ("#E69F00", "s"), 3.0: ("#56B4E9", "^"), 10.0: ("#0072B2", "o")}
"""Colour and marker of each rho, visible on light and dark pages."""

_Place: TypeAlias = tuple[float, float, int]
"""rho, EMD_avg and K."""

_MORE_SEEDS: Final[Mapping[_Place, int]] = {
    (1.0, 1.5, 8): 10,
    (3.0, 1.5, 8): 15,
    (10.0, 0.5, 8): 15,
    (10.0, 1.0, 8): 15,
    (10.0, 1.5, 8): 24,
    (1.0, 1.5, 20): 10,
    (3.0, 1.5, 20): 15,
    (10.0, 0.5, 20): 15,
    (10.0, 1.5, 20): 20,
    (3.0, 1.5, 60): 8,
    (10.0, 1.0, 60): 8,
    (10.0, 1.5, 60): 15,
}
"""How many seeds to train where the standard error of five is about half a point or more."""

_Gained: TypeAlias = Mapping[_Place, Mapping[str, Sequence[float]]]
"""The points that Dubhe gained over each other method, one per seed."""


def _cell(place: _Place, method: Method, seed: int, options: PaperSettings) -> Cell:
    rho, emd, num_participants = place
    given = {
        "rho": rho,
        "emd": emd,
        "num_clients": _CLIENTS,
        "num_participants": num_participants,
    }
    return digits_cell(method, seed, options, **given)


def _places(options: PaperSettings) -> list[_Place]:
    scale = options.scale
    return [
        (rho, emd, number)
        for number in _PARTICIPANTS[scale]
        for rho in _RHOS[scale]
        for emd in _EMDS[scale]
    ]


def _seeds(place: _Place, options: PaperSettings) -> tuple[int, ...]:
    return options.seeds_or(tuple(range(_MORE_SEEDS.get(place, _NUM_SEEDS))))


def _grid(options: PaperSettings) -> Grid:
    return {
        place: columns(_METHODS, _seeds(place, options), partial(_cell, place, options=options))
        for place in _places(options)
    }


def _report(_options: PaperSettings, results: Results) -> Section:
    gained = {
        place: {other: gains(of["dubhe"], of[other]) for other in _AGAINST}
        for place, of in results.items()
    }
    gained = {place: of for place, of in gained.items() if all(of.values())}
    return Section(
        "When does it help?",
        [
            (
                f"Digits, N = {_CLIENTS}, SGD as in dubhe compare, 60 rounds: points of accuracy, "
                "over the last quarter of the rounds, that Dubhe's defaults gain over random "
                "selection and over Power-of-Choice. ± is the standard error of the mean over "
                "paired seeds."
            )
        ],
        [_table(gained)],
        [_picture(gained)],
    )


def _table(gained: _Gained) -> Table:
    return Table(
        "Points of accuracy that Dubhe gains",
        ("federation", "K / N", *(f"over\n{name}" for name, _ in _AGAINST.values())),
        [
            [
                f"rho {rho:g}, EMD_avg {emd:g}",
                f"{number / _CLIENTS:.0%}",
                *(mean_gain(of[other]) for other in _AGAINST),
            ]
            for (rho, emd, number), of in gained.items()
        ],
    )


def _picture(gained: _Gained) -> Picture:
    numbers = sorted({number for _, _, number in gained})
    means = [fmean(of) for each in gained.values() for of in each.values()]
    limits = min([0.0, *means]) - 1, max([0.0, *means]) + 1
    panels = [partial(_draw, gained=gained, number=number, limits=limits) for number in numbers]
    caption = (
        "Points of accuracy that Dubhe gains over random selection (solid) and over "
        "Power-of-Choice (dashed), by the skew between clients, the global skew, and the share of "
        "clients that train in a round."
    )
    return Picture("when", caption, panels, width=8.0, height=2.8)


def _draw(axes: Axes, *, gained: _Gained, number: int, limits: tuple[float, float]) -> None:
    """Draw the points by EMD_avg, with a line for each rho and each other method."""
    for rho, (colour, marker) in _LOOKS.items():
        own = {emd: of for (r, emd, k), of in gained.items() if (r, k) == (rho, number)}
        for other, (name, line) in _AGAINST.items():
            look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line}
            means = [fmean(of[other]) for of in own.values()]
            if means:
                axes.plot(list(own), means, label=f"rho {rho:g}, {name}", ms=6, **look)
    axes.axhline(0, color=UNIFORM_COLOUR, linewidth=1)
    axes.set_ylim(limits)
    axes.set_xticks(sorted({emd for _, emd, _ in gained}))
    axes.set_xlabel(r"How much clients differ, $EMD^{avg}$")
    axes.set_ylabel("Points gained")
    axes.set_title(f"{number} of {_CLIENTS} clients per round")


EXPERIMENT: Final = Experiment(
    "Beyond the paper: points gained by balancing, by rho, EMD_avg and K / N.", _grid, _report
)
