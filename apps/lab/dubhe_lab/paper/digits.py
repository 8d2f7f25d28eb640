"""Beyond the paper: all selection methods on digits, with three optimizers and ten paired seeds.

A training takes seconds, so this table has enough seeds to tell methods apart, and every kind of
determination. `leaderboard` has the larger networks and federations.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from dubhe_lab.experiments.settings import SEEING_LOSSES
from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import Experiment, Found, Method, PaperSettings
from dubhe_lab.paper.leaderboard import summary
from dubhe_lab.paper.page import Picture, Section
from dubhe_lab.paper.trainings import (
    Trainings,
    digits_cell,
    mean_gain,
    paired_differences,
    points,
    together,
)
from dubhe_lab.report.panels import draw_accuracy, draw_shares
from dubhe_lab.report.picture import method_label, method_looks, picture
from dubhe_lab.report.table import Table

_SEEDS: Final = tuple(range(10))
_OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SGD": {"optimizer": "sgd"},
    "server\nmomentum": {"optimizer": "sgd", "server_momentum": 0.9},
    "Adam": {"optimizer": "adam"},
}
_USUAL: Final = Method("dubhe")
_MAIN: Final = (
    Method("random"),
    *map(Method, SEEING_LOSSES),
    Method("dubhe-paper", 10),
    _USUAL,
    Method("dubhe", determination="tries"),
    *map(Method, ("flips", "fedcbs", "fedentopt", "greedy")),
)
_METHODS: Final = (
    *_MAIN,
    Method("dubhe", determination="grouped"),
    Method("dubhe", local_skew=0.3),
    Method("dubhe", local_skew=1.0, coverage=0.1),
)
_DRAWN: Final = (
    *map(Method, ("random", "powd", "dubhe")),
    Method("dubhe", determination="tries"),
    Method("greedy"),
)
"""The methods in the documentation's first figure."""
_LOOKS: Final = method_looks([str(method) for method in _DRAWN])


def _trainings(options: PaperSettings) -> dict[str, Trainings]:
    """Return the cells of each optimizer and method, one per seed."""
    return {
        optimizer: {
            str(method): [
                digits_cell(method, seed, options, **given) for seed in options.seeds_or(_SEEDS)
            ]
            for method in _METHODS
        }
        for optimizer, given in _OPTIMIZERS.items()
    }


def _cells(options: PaperSettings) -> list[Cell]:
    # Seed by seed, so that an interrupted run covers all methods.
    columns = [of for trained in _trainings(options).values() for of in trained.values()]
    return [cell for of_seed in zip(*columns, strict=True) for cell in of_seed]


def _report(options: PaperSettings, found: Found) -> Section:
    trained = _trainings(options)
    return Section(
        "digits",
        "Digits, with ten seeds",
        [
            (
                "Digits as in dubhe compare: N = 150, rho = 10, EMD_avg = 1.5, 60 rounds of K = 20 "
                "clients. All methods share federations, initial models and batches. Accuracy is "
                "the mean over the last quarter of the rounds and all seeds; ± is the standard "
                "error of the mean over paired seeds."
            )
        ],
        [
            *summary(_MAIN, list(trained.values()), found),
            *_gains(trained, found),
        ],
        _headline(trained["SGD"], found),
    )


def _gains(trained: Mapping[str, Trainings], found: Found) -> list[Table]:
    """Return a table of the points that each method gains over Dubhe's defaults."""
    rows = []
    for method in _METHODS:
        gains = [
            mean_gain(
                paired_differences(points(of[str(method)], found), points(of[str(_USUAL)], found))
            )
            for of in trained.values()
        ]
        if method != _USUAL and all(gains):
            rows.append([method_label(str(method)), *gains])
    columns = ("method", *_OPTIMIZERS)
    return [Table("Points of accuracy gained over Dubhe's defaults", columns, rows)] if rows else []


def _headline(trained: Trainings, found: Found) -> list[Picture]:
    """Return a picture of a few methods, if any is finished."""
    results = together({str(method): trained[str(method)] for method in _DRAWN}, found)
    if results is None:
        return []
    proportions = {name: of.class_proportions for name, of in results.methods.items()}
    everyone = results.federation.class_proportions
    title = f"Accuracy over rounds: digits, {results.federation.num_clients} clients, SGD"
    panels = [
        partial(draw_accuracy, methods=results.methods, title=title, looks=_LOOKS),
        partial(draw_shares, proportions=proportions, all_clients=everyone),
    ]
    caption = "Some methods with SGD, first seed: accuracy, and the selected data's classes."
    return [Picture("headline", caption, picture(panels))]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: all selection methods on digits, with SGD, server momentum and Adam.",
    _cells,
    _report,
    needs_all=False,
)
"""`dubhe paper digits`: how Dubhe and its determination compare, with ten paired seeds."""
