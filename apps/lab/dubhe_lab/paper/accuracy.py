"""Accuracy in the paper's federations: Figures 2, 7, 8 and 9.

The module has four experiments: motivation (random selection under skew), curves (accuracy over
rounds), averages (accuracy in the federations of Table 1) and FEMNIST (handwritten letters). They
share cells made with `trainings.training_cell`, and each cell is measured once.
"""

from functools import partial
from statistics import fmean
from typing import Final

from dubhe_lab.paper.experiment import Experiment, Grid, Method, PaperSettings, Results, spread
from dubhe_lab.paper.page import Section
from dubhe_lab.paper.panels import draw_averages
from dubhe_lab.paper.trainings import ALL, accuracies, curves_of, together, trainings
from dubhe_lab.report.panels import accuracy_and_shares, draw_accuracy, draw_shares
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.results import ComparisonResults
from dubhe_lab.report.table import Table

_CAPTION: Final = "Accuracy over the last rounds"
_SKEWS: Final = {
    "Global skew": {"full": ("10/1.0", "5/1.0", "2/1.0", "1/1.0"), "small": ("10/1.0", "1/1.0")},
    "Discrepancy of clients": {
        "full": ("10/0.0", "10/0.5", "10/1.0", "10/1.5"),
        "small": ("10/0.0", "10/1.5"),
    },
}
_CURVES: Final = {"MNIST": "2", "CIFAR10": "10"}
_CURVES_EMDS: Final = {"full": ("0.5", "1.0", "1.5"), "small": ("0.5", "1.5")}
_RHOS: Final = {"full": ("10", "5", "2", "1"), "small": ("10", "1")}
_EMDS: Final = {"full": ("0.0", "0.5", "1.0", "1.5"), "small": ("0.0", "1.5")}
_FEMNIST_IN_PAPER: Final = {"random": 0.310, "dubhe-paper": 0.364, "greedy": 0.374}
"""Section 6.2: test accuracy on FEMNIST."""


def _datasets(options: PaperSettings) -> list[str]:
    """Return the data sets to train on; at small scale, the digits stand in for both."""
    wanted = [name for name in _CURVES if name in options.datasets]
    return wanted if options.is_full else wanted[:1]


# Motivation: random selection in federations of different skew (Figure 2).


def _motivation(options: PaperSettings) -> Grid:
    if "CIFAR10" not in options.datasets:
        return {}
    return {
        title: {
            f"CIFAR10-{skew}": trainings("CIFAR10", skew, options, (Method("random"),))["random"]
            for skew in skews[options.scale]
        }
        for title, skews in _SKEWS.items()
    }


def _report_motivation(_options: PaperSettings, results: Results) -> Section:
    rows, pictures = [], []
    for title, by_skew in results.items():
        measured = {name: of_seeds for name, of_seeds in by_skew.items() if of_seeds}
        rows += [[title, name, spread(accuracies(of))] for name, of in measured.items()]
        if measured:
            # Separate pictures, since they use the same colours for different federations.
            methods = together(measured).methods
            proportions = {name: of.class_proportions for name, of in methods.items()}
            pictures.append(
                Picture(
                    f"motivation-{title.split()[0].lower()}",
                    f"{title}, random selection. Above: test accuracy. Below: class proportions of "
                    "the selected data.",
                    [
                        partial(draw_accuracy, methods=methods, title=title),
                        partial(draw_shares, proportions=proportions),
                    ],
                )
            )
    title = "Motivation: random selection under skew"
    table = Table(_CAPTION, ("", "federation", "accuracy"), rows)
    return Section("motivation", title, [], [table], pictures)


# Curves: accuracy over the rounds, and both label terms of the bound (Figure 7 and eq. 3).


def _curves(options: PaperSettings) -> Grid:
    return {
        f"{dataset}-{_CURVES[dataset]}/{emd}": trainings(
            dataset, f"{_CURVES[dataset]}/{emd}", options
        )
        for dataset in _datasets(options)
        for emd in _CURVES_EMDS[options.scale]
    }


def _report_curves(_options: PaperSettings, results: Results) -> Section:
    rows = [
        [name, method, spread(accuracies(of_seeds))]
        for name, of in results.items()
        for method, of_seeds in of.items()
    ]
    table = Table(_CAPTION, ("federation", "method", "accuracy"), rows)
    pictures = curves_of("curves", results)
    return Section("curves", "Accuracy over the rounds", [], [table], pictures)


# Averages: final accuracy in the federations of Table 1 (Figure 8).


def _averages(options: PaperSettings) -> Grid:
    return {
        (dataset, rho, emd): trainings(dataset, f"{rho}/{emd}", options)
        for dataset in _datasets(options)
        for rho in _RHOS[options.scale]
        for emd in _EMDS[options.scale]
    }


def _report_averages(options: PaperSettings, results: Results) -> Section:
    reached = {
        skew: {method: accuracies(of_seeds) for method, of_seeds in of.items()}
        for skew, of in results.items()
    }
    rows = [
        [f"{dataset}-{rho}/{emd}", *(spread(of[str(method)]) for method in ALL)]
        for (dataset, rho, emd), of in reached.items()
        if any(of.values())
    ]
    return Section(
        "averages",
        "Accuracy in the federations of Table 1",
        [
            (
                "The paper shows these accuracies in a figure without numbers. With EMD_avg = 0 or "
                "rho = 1, selection has little to balance, and all methods should be close."
            )
        ],
        [Table(_CAPTION, ("federation", *map(str, ALL)), rows)],
        _averages_picture(options, reached),
    )


def _averages_picture(
    options: PaperSettings, reached: dict[tuple[str, str, str], dict[str, list[float]]]
) -> list[Picture]:
    emds = _EMDS[options.scale]
    panels = []
    for dataset, rho in dict.fromkeys(key[:2] for key in reached):
        of_emd = [reached[dataset, rho, emd] for emd in emds]
        if all(all(of.values()) for of in of_emd):
            series = {str(m): [fmean(of[str(m)]) for of in of_emd] for m in ALL}
            title = f"{dataset}, rho = {rho}"
            distances = [float(emd) for emd in emds]
            panels.append(partial(draw_averages, distances=distances, series=series, title=title))
    caption = "Accuracy over the last rounds by the discrepancy between clients (EMD_avg)."
    return [Picture("averages", caption, panels)]


# FEMNIST: accuracy, and the class proportions of the selected data (Figure 9).


def _femnist(options: PaperSettings) -> Grid:
    if "FEMNIST" not in options.datasets:
        return {}
    return {"FEMNIST": trainings("FEMNIST", "13.64/0.554", options)}


def _report_femnist(_options: PaperSettings, results: Results) -> Section:
    (of_methods,) = results.values()
    finished = together(of_methods)
    paper = {name: _FEMNIST_IN_PAPER.get(name.partition(",")[0]) for name in of_methods}
    rows = [
        [name, "" if paper[name] is None else f"{paper[name]:.3f}", spread(accuracies(of_seeds))]
        for name, of_seeds in of_methods.items()
    ]
    return Section(
        "femnist",
        "Handwritten letters by writer",
        [_federation(finished)],
        [Table(_CAPTION, ("method", "paper", "accuracy"), rows)],
        [
            Picture(
                "femnist",
                "Above: test accuracy. Below: class proportions of the selected data, mean over "
                "the rounds.",
                accuracy_and_shares(finished),
            )
        ],
    )


def _federation(results: ComparisonResults) -> str:
    of = results.federation
    return (
        f"{of.num_clients} clients of {of.num_samples} samples and {of.num_classes} classes, "
        f"rho = {of.rho:.2f}, EMD_avg = {of.emd:.3f}. The paper: 8962, 13.64, 0.554."
    )


MOTIVATION: Final = Experiment(
    "Accuracy and class proportions of random selection under skew.",
    _motivation,
    _report_motivation,
)
CURVES: Final = Experiment(
    "Accuracy of each selection method over the rounds, and the terms of the bound.",
    _curves,
    _report_curves,
)
AVERAGES: Final = Experiment(
    "Accuracy over the last rounds in the federations of Table 1.", _averages, _report_averages
)
FEMNIST: Final = Experiment(
    "Accuracy and class proportions on the letters of FEMNIST.", _femnist, _report_femnist
)
