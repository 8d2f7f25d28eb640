"""FEMNIST: accuracy, and the class proportions of the selected data (paper, Figure 9)."""

from functools import partial
from typing import Final

from dubhe_flwr.report import ComparisonResults
from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.section import Picture, Section, Table
from reproduction.cell import Cell
from reproduction.experiment import Experiment, Found, spread
from reproduction.options import Options
from reproduction.paper import FEMNIST_ACCURACY
from reproduction.trained import (
    accuracies,
    together,
    trainings,
)

__all__ = ["EXPERIMENT"]

_NAME: Final = "FEMNIST-13.64/0.554"


def _trainings(options: Options) -> dict[str, list[Cell]]:
    if "FEMNIST" not in options.datasets:
        return {}
    return trainings(_NAME, options, epochs=5)


def _cells(options: Options) -> list[Cell]:
    return [cell for cells in _trainings(options).values() for cell in cells]


def _report(options: Options, found: Found) -> Section:
    cells = _trainings(options)
    rows = [[method, _paper(method), spread(accuracies(of, found))] for method, of in cells.items()]
    results = together(cells, found) if cells else None
    return Section(
        "femnist",
        "Handwritten letters with their writers",
        _federation(results),
        [Table("Accuracy over the last rounds", ("method", "paper", "accuracy"), rows)],
        [] if results is None else [_picture(results)],
    )


def _paper(method: str) -> str:
    value = FEMNIST_ACCURACY.get(method.partition(",")[0])
    return "" if value is None else f"{value:.3f}"


def _federation(results: ComparisonResults | None) -> list[str]:
    if results is None:
        return []
    of = results.federation
    return [
        (
            f"{of.num_clients} clients of {of.num_samples} samples and {of.num_classes} classes, "
            f"rho = {of.rho:.2f}, EMD_avg = {of.emd:.3f}. The paper: 8962, 13.64, 0.554."
        )
    ]


def _picture(results: ComparisonResults) -> Picture:
    from dubhe_flwr.report.panels import draw_accuracy, draw_class_proportions  # noqa: PLC0415

    return Picture(
        "femnist",
        "Left: test accuracy. Right: class proportions of the selected data, mean over the rounds.",
        picture(
            [
                [
                    partial(draw_accuracy, results=results),
                    partial(draw_class_proportions, results=results),
                ]
            ],
            (14, 4.6),
        ),
    )


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
