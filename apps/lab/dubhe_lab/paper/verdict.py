"""Beyond the paper: is the verdict of `dubhe_lab.study` right? Trains in random federations."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from math import exp, log
from statistics import fmean
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_lab.experiments.my_federation import study
from dubhe_lab.experiments.settings import CompareSettings, MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import Experiment, Grid, PaperSettings, Results, Section, deciding
from dubhe_lab.paper.trainings import measure
from dubhe_lab.report.federation import points_of_digits, verdict_on
from dubhe_lab.report.picture import UNIFORM_COLOUR, Picture
from dubhe_lab.report.table import Table

_FEDERATIONS: Final = {"full": range(200), "small": range(3)}
_KINDS: Final = {120: ((0.2, 1.6), 20, 40), 160: ((1.4, 1.7), 3, 10), 200: ((0.2, 1.7), 2.5, 40)}
"""Range of EMD_avg, largest rho and most participants, for federations numbered below the key."""
_SMALL: Final = {"num_rounds": 12, "key_bits": 512}
_FITTED: Final = {"full": {*range(60), *range(120, 140), *range(160, 180)}, "small": set[int]()}
"""Federations that the study's formula was fitted to; the report leaves them out."""

_COMPARED: Final = ("random", "dubhe")
_LOOKS: Final = {"not": ("#D55E00", "x"), "little": ("#56B4E9", "s"), "much": ("#0072B2", "o")}
"""Colour and marker of each verdict."""


@cache
def _settings(number: int, *, is_full: bool) -> CompareSettings:
    """Return the comparison for a random federation of 25 to 300 clients.

    A skew that this federation cannot have is drawn again.
    """
    rng = generator(number, "verdict")
    small = {} if is_full else _SMALL
    emds, largest_rho, most = next(kind for end, kind in _KINDS.items() if number < end)
    while True:
        num_clients = round(exp(rng.uniform(log(25), log(300))))
        given = {
            "num_clients": num_clients,
            "rho": round(exp(rng.uniform(0, log(largest_rho))), 1),
            "emd": round(rng.uniform(*emds), 1),
            "num_participants": int(rng.integers(3, 1 + min(most, num_clients // 2))),
            "seed": number,
        }
        settings = CompareSettings.for_dataset(
            "digits", methods=_COMPARED, encrypted=False, **given, **small
        )
        with suppress(SettingsError):
            settings.federation.draw("digits", 10)
            return settings


def _grid(options: PaperSettings) -> Grid:
    numbers = _FEDERATIONS[options.scale]
    cells = [_cell(_settings(number, is_full=options.is_full)) for number in numbers]
    return {"digits": {"federations": cells}}


def _cell(settings: CompareSettings) -> Cell:
    federation, wanted = settings.federation, settings.selection.num_participants
    name = f"{federation.rho:g}/{federation.emd:g}, N={federation.num_clients}, K={wanted}"
    unused = ("data_dir", "device")
    config = {key: value for key, value in deciding(settings).items() if key not in unused}
    return Cell(
        "verdict",
        f"digits {name}, seed {federation.seed}",
        config,
        partial(_measure, settings),
    )


def _measure(settings: CompareSettings, machine: MachineSettings, advance: Advance) -> Measured:
    """Study the federation, and train in it with random selection and with Dubhe.

    Stores the study's distances rather than its verdict, whose formula may change.
    """
    selection = settings.selection
    counts = settings.federation.draw("digits", 10).label_counts
    found = study(counts, num_participants=selection.num_participants, key_bits=selection.key_bits)
    trained = measure(settings, machine, advance)
    methods = trained.result["methods"]
    told = {
        "emd": found.emd,
        "lasting": {name: found.methods[name].lasting for name in methods},
        "distance": {name: found.methods[name].distance for name in methods},
        "accuracy": {name: of["final_accuracy"] for name, of in methods.items()},
    }
    return replace(trained, result=told)


def _report(options: PaperSettings, found: Results) -> Section:
    of_numbers = found["digits"]["federations"]  # a federation's number is its seed
    results = [of for number, of in of_numbers.items() if number not in _FITTED[options.scale]]
    return Section(
        "Is the verdict of a study right?",
        [
            (
                "Random federations of 25 to 300 clients. Three in four have rho up to 20, EMD_avg "
                "up to 1.6, and K from 3 to half of the clients, at most 40; the rest have rho up "
                "to 3, EMD_avg from 1.4 to 1.7, and K from 3 to 10. In each we run the study, and "
                "train on handwritten digits with random selection and with Dubhe's defaults, as "
                "in dubhe compare. The study's formula was fitted to "
                f"{len(_FITTED['full'])} such federations, which are not shown."
            )
        ],
        [
            Table(
                "Points of accuracy that Dubhe gained, by the verdict of the study",
                ("verdict", "federations", "predicted", "gained", "nine in ten"),
                [row for verdict in _LOOKS if (row := _row(verdict, results))],
            )
        ],
        [
            Picture(
                "verdict",
                "Points of accuracy that Dubhe gained over random selection, by predicted points.",
                [partial(_draw, results=results)],
            )
        ]
        if results
        else [],
    )


def _row(verdict: str, results: Sequence[Any]) -> list[str]:
    """Return a verdict's row, with means and range of points; empty without federations."""
    own = [result for result in results if verdict_on(_predicted(result)) == verdict]
    if not own:
        return []
    low, high = np.percentile([*map(_gained, own)], [5, 95])
    return [
        verdict,
        str(len(own)),
        *(f"{fmean(map(points, own)):.1f}" for points in (_predicted, _gained)),
        f"{low:.1f} to {high:.1f}",
    ]


def _predicted(result: Any) -> float:
    both = ([result[of][name] for name in _COMPARED] for of in ("lasting", "distance"))
    return points_of_digits(result["emd"], *both)


def _gained(result: Any) -> float:
    accuracy = result["accuracy"]
    return 100 * float(accuracy["dubhe"] - accuracy["random"])


def _draw(axes: Axes, results: Sequence[Any]) -> None:
    for verdict, (colour, marker) in _LOOKS.items():
        own = [result for result in results if verdict_on(_predicted(result)) == verdict]
        points = [*map(_predicted, own)], [*map(_gained, own)]
        axes.scatter(*points, c=colour, marker=marker, label=verdict)
    axes.axline((0, 0), slope=1, color=UNIFORM_COLOUR, linewidth=1.2, linestyle="--")
    axes.set_xlabel("Points of accuracy that the study predicts")
    axes.set_ylabel("Points gained")
    axes.set_title("Predicted and actual gain")


EXPERIMENT: Final = Experiment(
    "Beyond the paper: points of accuracy gained, by the verdict of a study.", _grid, _report
)
