"""Accuracy on the letters of FEMNIST, whose clients are writers (paper, 6.2)."""

from typing import Final

from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    spread,
)
from dubhe_lab.paper.trainings import accuracies, together, trainings
from dubhe_lab.report.panels import accuracy_and_shares
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

_METHODS: Final = (
    Method("random"),
    Method("dubhe-paper", 1),
    Method("dubhe"),
    Method("greedy"),
)
_IN_PAPER: Final = {"random": "0.310", "dubhe-paper": "0.364", "greedy": "0.374"}
"""Section 6.2: test accuracy on FEMNIST."""


def _grid(options: PaperSettings) -> Grid:
    return {"FEMNIST": trainings("FEMNIST", "13.64/0.554", options, _METHODS)}


def _report(_options: PaperSettings, results: Results) -> Section:
    (of_methods,) = results.values()
    finished = together(of_methods)
    of = finished.federation
    return Section(
        "Handwritten letters by writer",
        [
            (
                f"{of.num_clients} clients of {of.num_samples} samples and {of.num_classes} "
                f"classes, rho = {of.rho:.2f}, EMD_avg = {of.emd:.3f}. The paper: 8962, 13.64, "
                "0.554."
            )
        ],
        [
            Table(
                "Accuracy over the last rounds",
                ("method", "paper", "accuracy"),
                [
                    [
                        str(method),
                        _IN_PAPER.get(method.name, ""),
                        spread(accuracies(of_methods[str(method)])),
                    ]
                    for method in _METHODS
                ],
            )
        ],
        [
            Picture(
                "femnist",
                "Above: test accuracy. Below: class proportions of the selected data, mean over "
                "the rounds.",
                accuracy_and_shares(finished),
            )
        ],
    )


EXPERIMENT: Final = Experiment(
    "Accuracy and class proportions on the letters of FEMNIST.", _grid, _report
)
