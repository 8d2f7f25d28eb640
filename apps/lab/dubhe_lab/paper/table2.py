"""Multi-time selection: distance and accuracy over the number of tries H (paper, Table 2)."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Final, get_args

from dubhe_lab.data import PartitionKind
from dubhe_lab.paper.experiment import (
    SKEW,
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    Seeds,
    spread,
)
from dubhe_lab.paper.studies import CLIENTS, studies
from dubhe_lab.paper.trainings import accuracies, together, trainings
from dubhe_lab.report.panels import draw_accuracy, label_terms
from dubhe_lab.report.picture import Panel, Picture
from dubhe_lab.report.table import Table

PAPER: Final[Mapping[str, Mapping[str, float]]] = {
    "EMD*": {"1": 0.2946, "2": 0.2588, "5": 0.2176, "10": 0.1971, "20": 0.1750, "opt": 0.0144},
    "MNIST": {"1": 0.9662, "2": 0.9668, "5": 0.9665, "10": 0.9684, "20": 0.9678, "opt": 0.9694},
    "CIFAR10": {"1": 0.4300, "2": 0.4518, "5": 0.4486, "10": 0.4441, "20": 0.4577, "opt": 0.5295},
}
"""The paper's Table 2: distance and accuracies for each number of tries H, and for greedy."""

_TRIES: Final = {"full": (1, 2, 5, 10, 20), "small": (1, 10)}
_BASELINES: Final = (Method("random"), Method("greedy"))
_ROUNDS: Final = {"full": 100, "small": 20}
_SEEDS: Final = (0, 1, 2)


def _methods(options: PaperSettings) -> tuple[Method, ...]:
    tries = options.tries or _TRIES[options.scale]
    return (*_BASELINES, Method("dubhe"), *(Method("dubhe-paper", number) for number in tries))


def _grid(options: PaperSettings) -> Grid:
    """Return the selections of each kind of federation, and the training runs on each data set."""
    rounds = _ROUNDS[options.scale]
    wanted = [dataset for dataset in ("MNIST", "CIFAR10") if dataset in options.datasets]
    return {
        **{
            kind: studies(options, _methods(options), _SEEDS, num_rounds=rounds, generator=kind)
            for kind in get_args(PartitionKind)
        },
        **{
            dataset: trainings(dataset, "10/1.5", options, _methods(options), _SEEDS)
            for dataset in (wanted if options.is_full else wanted[:1])
        },
    }


def _report(options: PaperSettings, results: Results) -> Section:
    trained = {name: of for name, of in results.items() if name not in get_args(PartitionKind)}
    return Section(
        "Multi-time selection",
        [
            (
                f"Federations with rho = {SKEW['rho']:g}, EMD_avg = {SKEW['emd']:g}, "
                f"N = {CLIENTS[options.scale]} and K = 20. EMD* is the mean of ||p_o - p_u||_1 "
                "over the rounds. ± is the largest distance of a seed from the mean."
            )
        ],
        [
            _distances(options, results),
            *(_accuracies(options, dataset, of) for dataset, of in trained.items()),
        ],
        [_curves(trained)],
    )


def _distances(options: PaperSettings, results: Results) -> Table:
    kinds = get_args(PartitionKind)
    rows = []
    for method in _methods(options):
        found = [results[kind][str(method)].values() for kind in kinds]
        rows.append(
            [
                str(method),
                _paper("EMD*", method),
                *(spread(result["mean_emd"] for result in of) for of in found),
                *(spread((result["mean_local_emd"] for result in of), 2) for of in found),
                *(spread((100 * result["coverage_100"] for result in of), 0) for of in found),
            ]
        )
    return Table(
        "EMD* of each selection method, the other label term of the bound, and the share of "
        f"clients selected within {_ROUNDS[options.scale]} rounds",
        (
            "method",
            "EMD* paper",
            *(f"{what} {kind}" for what in ("EMD*", "local", "clients, %") for kind in kinds),
        ),
        rows,
    )


def _accuracies(options: PaperSettings, dataset: str, of_methods: Mapping[str, Seeds]) -> Table:
    reached = {name: accuracies(of_seeds) for name, of_seeds in of_methods.items()}
    least, most, first = reached["random"], reached["greedy"], reached.get("dubhe-paper, H=1", [])
    rows = []
    for method in _methods(options):
        own = reached[str(method)]
        rows.append(
            [
                str(method),
                _paper(dataset, method, percent=True),
                spread((100 * value for value in own), 1),
                _share(own, least, most),
                "" if method.name == "random" else _share(own, first, most),
                _paper_share(dataset, method),
            ]
        )
    return Table(
        f"{dataset}: accuracy over the last rounds in percent. Share of greedy's gain: 0 % is "
        "random, 100 % is greedy. Beta, the paper's measure: 0 % is one try (H=1), 100 % is greedy",
        ("method", "paper %", "accuracy %", "share of greedy's gain", "beta", "beta, paper"),
        rows,
    )


def _curves(trained: Results) -> Picture:
    """Return a picture of each data set's first finished seed over the rounds."""
    panels: list[Panel] = []
    for dataset, of_methods in trained.items():
        if any(of_methods.values()):
            found = together(of_methods)
            title = f"{dataset}-10/1.5"
            panels.append(partial(draw_accuracy, methods=found.methods, title=title))
            panels += label_terms(found)
    caption = (
        "Test accuracy, above both label terms of the bound on the weight divergence (eq. 3): "
        "the selected data's distance from uniform, and the clients' distance from the selected "
        "data."
    )
    return Picture("table2", caption, panels)


def _share(own: list[float], least: list[float], most: list[float]) -> str:
    if not (own and least and most) or fmean(most) == fmean(least):
        return ""
    return f"{(fmean(own) - fmean(least)) / (fmean(most) - fmean(least)):.0%}"


def _in_paper(row: str, method: Method) -> float | None:
    return PAPER[row].get("opt" if method.name == "greedy" else str(method.tries))


def _paper(row: str, method: Method, *, percent: bool = False) -> str:
    value = _in_paper(row, method)
    if value is None:
        return ""
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def _paper_share(dataset: str, method: Method) -> str:
    of, value = PAPER[dataset], _in_paper(dataset, method)
    return "" if value is None else f"{(value - of['1']) / (of['opt'] - of['1']):.1%}"


EXPERIMENT: Final = Experiment(
    "Distance and accuracy for H tries; only the distance with --datasets none.", _grid, _report
)
