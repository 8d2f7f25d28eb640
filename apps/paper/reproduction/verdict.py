"""Past the paper: is the verdict of `dubhe_flwr.study` right? Trainings of random federations."""

from collections.abc import Sequence
from functools import partial
from math import exp, log
from statistics import fmean
from typing import Any, Final

from matplotlib.axes import Axes

from dubhe_flwr.core import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments.my_federation import study
from dubhe_flwr.experiments.settings import CompareSettings, MachineSettings
from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.table import Table
from reproduction.cells import Advance, Cell, Measured
from reproduction.experiment import Experiment, Found, PaperSettings, finished
from reproduction.page import Picture, Section

_FEDERATIONS: Final = {"full": 60, "small": 3}
_SMALL: Final = {"num_rounds": 12, "key_bits": 512}
_VERDICTS: Final = {
    "not": ("below 0.05", "#D55E00", "x"),
    "little": ("0.05 to 0.2", "#56B4E9", "s"),
    "much": ("from 0.2", "#0072B2", "o"),
}
"""How the gain is told, and how a federation is drawn, by verdict."""


def _settings(number: int, options: PaperSettings) -> CompareSettings:
    """Return the comparison in a random federation of 25 to 300 clients.

    Skew that such a federation cannot have is drawn anew.
    """
    rng = generator(number, "verdict")
    small = {} if options.is_full else _SMALL
    while True:
        num_clients = round(exp(rng.uniform(log(25), log(300))))
        given = {
            "num_clients": num_clients,
            "rho": round(exp(rng.uniform(0, log(20))), 1),
            "emd": round(rng.uniform(0.2, 1.6), 1),
            "num_participants": int(rng.integers(3, 1 + min(40, num_clients // 2))),
            "seed": number,
        }
        settings = CompareSettings.for_dataset(
            "digits", methods=("random", "dubhe"), encrypted=False, **given, **small
        )
        try:
            settings.federation.draw("digits", 10)
        except SettingsError:
            continue
        return settings


def _cells(options: PaperSettings) -> list[Cell]:
    return [_cell(_settings(number, options)) for number in range(_FEDERATIONS[options.scale])]


def _cell(settings: CompareSettings) -> Cell:
    federation, wanted = settings.federation, settings.selection.num_participants
    name = f"{federation.rho:g}/{federation.emd:g}, N={federation.num_clients}, K={wanted}"
    unused = ("data_dir", "device", "engine")
    config = {key: value for key, value in settings.flat().items() if key not in unused}
    return Cell(
        "verdict",
        f"digits {name}, seed {federation.seed}",
        config,
        partial(_measure, settings),
        settings.num_rounds * wanted,
    )


def _measure(settings: CompareSettings, _machine: MachineSettings, advance: Advance) -> Measured:
    """Study the federation, and train in it at random and with Dubhe."""
    from dubhe_flwr.experiments.compare import compare  # noqa: PLC0415 - imports torch

    def on_round(_method: str, server_round: int, _accuracy: float | None) -> None:
        advance(min(server_round, 1) / settings.num_rounds / len(settings.methods))

    selection = settings.selection
    counts = settings.federation.draw("digits", 10).label_counts
    found = study(counts, num_participants=selection.num_participants, key_bits=selection.key_bits)
    methods = compare(settings, on_round).methods
    accuracy = {name: of.final_accuracy for name, of in methods.items()}
    return Measured(
        {"gain": found.gain, "helps": found.helps, "accuracy": accuracy}, packages=("torch",)
    )


def _report(options: PaperSettings, found: Found) -> Section:
    results = list(finished(_cells(options), found))
    return Section(
        "verdict",
        "Whether the verdict of a study is right",
        [
            (
                "Random federations of 25 to 300 clients, rho up to 20 and EMD_avg up to 1.6; K "
                "from 3 to half of the clients, at most 40. Each is studied, and trained in at "
                "random and with Dubhe as it comes, on handwritten digits as in dubhe compare."
            )
        ],
        [
            Table(
                "Points of accuracy that Dubhe gained, by the verdict of the study",
                ("verdict", "gain", "federations", "points", "nine of ten"),
                [row for helps in _VERDICTS if (row := _row(helps, results))],
            )
        ],
        [
            Picture(
                "verdict",
                "Points of accuracy that Dubhe gained over random selection, by the foretold gain.",
                picture([partial(_draw, results=results)]),
            )
        ],
    )


def _row(helps: str, results: Sequence[Any]) -> list[str]:
    """Return mean and range of the points, or nothing where no federation is of the verdict."""
    points = sorted(_points(of) for of in results if of["helps"] == helps)
    if not points:
        return []
    outside = len(points) // 20
    low, high = points[outside], points[-1 - outside]
    told = f"{low:.1f} to {high:.1f}"
    return [helps, _VERDICTS[helps][0], str(len(points)), f"{fmean(points):.1f}", told]


def _points(result: Any) -> float:
    accuracy = result["accuracy"]
    return 100 * float(accuracy["dubhe"] - accuracy["random"])


def _draw(axes: Axes, results: Sequence[Any]) -> None:
    for helps, (_, colour, marker) in _VERDICTS.items():
        own = [result for result in results if result["helps"] == helps]
        gains, points = [of["gain"] for of in own], list(map(_points, own))
        axes.scatter(gains, points, c=colour, marker=marker, label=helps)
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set_xlabel("Gain that the study foretells")
    axes.set_ylabel("Points of accuracy gained")
    axes.set_title("What the study foretold, and what was gained")


EXPERIMENT: Final = Experiment(
    "Past the paper: points of accuracy against the verdict of a study.",
    _cells,
    _report,
    needs_all=False,
)
"""`python apps/paper verdict`: what the limits of a study's verdict come from."""
