"""Accuracy over the rounds, and both label terms of the bound (paper, Figure 7 and eq. 3)."""

from typing import Final

from dubhe_flwr.report.section import Section, Table
from reproduction.cell import Cell
from reproduction.experiment import Experiment, Found, spread
from reproduction.options import Options
from reproduction.trained import (
    accuracies,
    curves_of,
    trainings,
)

__all__ = ["EXPERIMENT"]

_RHO: Final = {"MNIST": 2, "CIFAR10": 10}
_EMDS: Final = {"full": ("0.5", "1.0", "1.5"), "small": ("0.5", "1.5")}


def _federations(options: Options) -> dict[str, dict[str, list[Cell]]]:
    datasets = [dataset for dataset in _RHO if dataset in options.datasets]
    names = [
        f"{dataset}-{_RHO[dataset]}/{emd}"
        for dataset in (datasets if options.is_full else datasets[:1])
        for emd in _EMDS[options.scale]
    ]
    return {name: trainings(name, options) for name in names}


def _cells(options: Options) -> list[Cell]:
    return [
        cell for of in _federations(options).values() for cells in of.values() for cell in cells
    ]


def _report(options: Options, found: Found) -> Section:
    federations = _federations(options)
    rows = [
        [name, method, spread(accuracies(cells, found))]
        for name, of in federations.items()
        for method, cells in of.items()
    ]
    return Section(
        "curves",
        "Accuracy over the rounds",
        [],
        [Table("Accuracy over the last rounds", ("federation", "method", "accuracy"), rows)],
        curves_of("curves", federations, found),
    )


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
