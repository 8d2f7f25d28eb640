"""Why skew hurts: random selection in federations of different skew (paper, Figure 2)."""

from functools import partial
from typing import Any, Final

from dubhe_flwr.report.picture import Panel, picture
from dubhe_flwr.report.results import ClassProportions
from dubhe_flwr.report.section import Picture, Section, Table
from reproduction.cell import Cell
from reproduction.experiment import Experiment, Found, spread
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.trained import accuracies, trainings

__all__ = ["EXPERIMENT"]

_DATASET: Final = "CIFAR10"
_GLOBAL: Final = {"full": ("10/1.0", "5/1.0", "2/1.0", "1/1.0"), "small": ("10/1.0", "1/1.0")}
_LOCAL: Final = {
    "full": ("10/0.0", "10/0.5", "10/1.0", "10/1.5"),
    "small": ("10/0.0", "10/1.5"),
}


def _series(options: Options) -> dict[str, dict[str, list[Cell]]]:
    if _DATASET not in options.datasets:
        return {}
    return {
        title: {
            skew: trainings(f"{_DATASET}-{skew}", options, (Method("random"),))["random"]
            for skew in skews[options.scale]
        }
        for title, skews in (("Global skew", _GLOBAL), ("Discrepancy of clients", _LOCAL))
    }


def _cells(options: Options) -> list[Cell]:
    return [
        cell
        for by_skew in _series(options).values()
        for cells in by_skew.values()
        for cell in cells
    ]


def _report(options: Options, found: Found) -> Section:
    rows, pictures = [], []
    for title, by_skew in _series(options).items():
        there = {
            f"{_DATASET}-{skew}": cells for skew, cells in by_skew.items() if cells[0].key in found
        }
        rows += [[title, name, spread(accuracies(c, found))] for name, c in there.items()]
        if there:
            # A picture each, since the same colour stands for another federation in each of them.
            pictures.append(
                Picture(
                    f"motivation-{title.split()[0].lower()}",
                    f"{title}, random selection. Left: test accuracy. Right: class proportions of "
                    "the selected data.",
                    picture(
                        [_panels(title, {n: found[c[0].key] for n, c in there.items()})], (12, 4.6)
                    ),
                )
            )
    return Section(
        "motivation",
        "Motivation: random selection under skew",
        [],
        [Table("Accuracy over the last rounds", ("", "federation", "accuracy"), rows)],
        pictures,
    )


def _panels(title: str, results: dict[str, Any]) -> list[Panel]:
    from reproduction.panels import draw_curves, draw_shares  # noqa: PLC0415

    accuracy, proportions = {}, {}
    for name, result in results.items():
        method = result["methods"]["random"]
        accuracy[name] = method["accuracy"]
        shares = method["class_proportions"]
        proportions[name] = ClassProportions(tuple(shares["mean"]), tuple(shares["sd"]))
    return [
        partial(draw_curves, series=accuracy, title=title),
        partial(draw_shares, proportions=proportions),
    ]


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
