"""Accuracy over the last rounds in the federations of Table 1 (paper, Figure 8)."""

from functools import partial
from statistics import fmean
from typing import Final

from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.section import Picture, Section, Table
from reproduction.cell import Cell
from reproduction.experiment import Experiment, Found, spread
from reproduction.options import Options
from reproduction.trained import (
    METHODS,
    accuracies,
    trainings,
)

__all__ = ["EXPERIMENT"]

_DATASETS: Final = ("MNIST", "CIFAR10")
_RHOS: Final = {"full": ("10", "5", "2", "1"), "small": ("10", "1")}
_EMDS: Final = {"full": ("0.0", "0.5", "1.0", "1.5"), "small": ("0.0", "1.5")}


def _federations(options: Options) -> dict[tuple[str, str, str], dict[str, list[Cell]]]:
    datasets = [dataset for dataset in _DATASETS if dataset in options.datasets]
    return {
        (dataset, rho, emd): trainings(f"{dataset}-{rho}/{emd}", options)
        for dataset in (datasets if options.is_full else datasets[:1])
        for rho in _RHOS[options.scale]
        for emd in _EMDS[options.scale]
    }


def _cells(options: Options) -> list[Cell]:
    return [
        cell for of in _federations(options).values() for cells in of.values() for cell in cells
    ]


def _report(options: Options, found: Found) -> Section:
    reached = {
        skew: {method: accuracies(c, found) for method, c in cells.items()}
        for skew, cells in _federations(options).items()
    }
    rows = [
        [f"{dataset}-{rho}/{emd}", *(spread(of[str(method)]) for method in METHODS)]
        for (dataset, rho, emd), of in reached.items()
        if any(of.values())
    ]
    return Section(
        "averages",
        "Accuracy in the federations of Table 1",
        [
            (
                "The paper shows these as a figure without numbers. Where EMD_avg = 0 or rho = 1 "
                "there is little to balance, and all ways of selecting should be close."
            ),
        ],
        [Table("Accuracy over the last rounds", ("federation", *map(str, METHODS)), rows)],
        _pictures(options, reached),
    )


def _pictures(
    options: Options, reached: dict[tuple[str, str, str], dict[str, list[float]]]
) -> list[Picture]:
    from reproduction.panels import draw_averages  # noqa: PLC0415 - an extra

    emds = _EMDS[options.scale]
    panels = []
    for dataset, rho in dict.fromkeys(key[:2] for key in reached):
        of_emd = [reached[dataset, rho, emd] for emd in emds]
        if all(all(of.values()) for of in of_emd):
            series = {str(m): [fmean(of[str(m)]) for of in of_emd] for m in METHODS}
            panels.append(
                partial(
                    draw_averages,
                    distances=[float(emd) for emd in emds],
                    series=series,
                    title=f"{dataset}, rho = {rho}",
                )
            )
    if not panels:
        return []
    width = 4 if len(panels) % 4 == 0 else 2 if len(panels) % 2 == 0 else 1
    grid = [panels[start : start + width] for start in range(0, len(panels), width)]
    return [
        Picture(
            "averages",
            "Accuracy over the last rounds, over the discrepancy of the clients.",
            picture(grid, (max(7.0, 3.6 * width), 3.9 * len(grid))),
        )
    ]


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
