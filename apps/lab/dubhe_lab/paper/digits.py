"""Beyond the paper: all selection methods on digits, with three optimizers and ten paired seeds.

A training run takes seconds, so these tables have enough seeds to tell methods apart, and show what
determination adds, also in small rounds. `leaderboard` has the larger networks and federations.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    Seeds,
    columns,
)
from dubhe_lab.paper.leaderboard import summary
from dubhe_lab.paper.trainings import digits_cell, gains, mean_gain, together
from dubhe_lab.report.methods import SEEING_LOSSES, method_label, method_looks
from dubhe_lab.report.panels import accuracy_and_shares
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

_SEEDS: Final = tuple(range(10))
_OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SGD": {"optimizer": "sgd"},
    "server\nmomentum": {"optimizer": "sgd", "server_momentum": 0.9},
    "Adam": {"optimizer": "adam"},
}
_USUAL: Final = Method("dubhe")
_TRIED: Final = Method("dubhe", 20)
_MAIN: Final = (
    Method("random"),
    *map(Method, SEEING_LOSSES),
    Method("dubhe-paper", 10),
    _USUAL,
    _TRIED,
    *map(Method, ("flips", "fedcbs", "fedentopt", "greedy")),
)
_METHODS: Final = (
    *_MAIN,
    Method("dubhe", coverage=0.3),
    Method("dubhe", coverage=0.1, local_skew=1.0),
)
_SMALL_ROUNDS: Final = (5, 10)
"""Values of K for the table of small rounds."""
_METHODS_OF_SMALL_ROUNDS: Final = (
    Method("random"),
    _USUAL,
    Method("dubhe", 3),
    _TRIED,
    Method("greedy"),
)
_DRAWN: Final = (
    *map(Method, ("random", "powd")),
    _USUAL,
    _TRIED,
    Method("greedy"),
)
"""The methods in the documentation's first figure."""
_LOOKS: Final = method_looks([str(method) for method in _DRAWN])


def _grid(options: PaperSettings) -> Grid:
    seeds, cell = options.seeds_or(_SEEDS), partial(digits_cell, options=options)
    return {
        **{
            optimizer: columns(_METHODS, seeds, partial(cell, **given))
            for optimizer, given in _OPTIMIZERS.items()
        },
        **{
            f"K = {number},\n{optimizer}": columns(
                _METHODS_OF_SMALL_ROUNDS,
                seeds,
                partial(cell, num_participants=number, **_OPTIMIZERS[optimizer]),
            )
            for number in _SMALL_ROUNDS
            for optimizer in ("SGD", "Adam")
        },
    }


def _report(_options: PaperSettings, found: Results) -> Section:
    results = {optimizer: found[optimizer] for optimizer in _OPTIMIZERS}
    of_small_rounds = {title: of for title, of in found.items() if title not in _OPTIMIZERS}
    return Section(
        "Digits, with ten seeds",
        [
            (
                "Digits as in dubhe compare: N = 150, rho = 10, EMD_avg = 1.5, 60 rounds of K = 20 "
                "clients. All methods share federations, initial models and batches. Accuracy is "
                "the mean over the last quarter of the rounds and all seeds; ± is the standard "
                "error of the mean over paired seeds. The last table has rounds of 5 and 10 "
                "clients instead."
            )
        ],
        [
            summary(_MAIN, list(results.values())),
            _gains(results),
            _small_rounds(of_small_rounds),
        ],
        _headline(results["SGD"]),
    )


def _gains(results: Results) -> Table:
    """Return a table of the points that each method gains over Dubhe's defaults."""
    rows = []
    for method in _METHODS:
        gained = [mean_gain(gains(of[str(method)], of[str(_USUAL)])) for of in results.values()]
        if method != _USUAL and all(gained):
            rows.append([method_label(str(method)), *gained])
    columns = ("method", *_OPTIMIZERS)
    return Table("Points of accuracy gained over Dubhe's defaults", columns, rows)


def _small_rounds(results: Results) -> Table:
    """Return a table of the points that each method gains over random selection in small rounds."""
    rows = []
    for method in _METHODS_OF_SMALL_ROUNDS[1:]:
        gained = [mean_gain(gains(of[str(method)], of["random"])) for of in results.values()]
        if all(gained):
            rows.append([method_label(str(method)), *gained])
    columns = ("method", *results)
    return Table("Points of accuracy gained over random selection in small rounds", columns, rows)


def _headline(of_methods: Mapping[str, Seeds]) -> list[Picture]:
    """Return a picture of a few methods, if any is finished."""
    drawn = {str(method): of_methods[str(method)] for method in _DRAWN}
    if not any(drawn.values()):
        return []
    results = together(drawn)
    title = f"Accuracy over rounds: digits, {results.federation.num_clients} clients, SGD"
    panels = accuracy_and_shares(results, title=title, looks=_LOOKS)
    caption = "Some methods with SGD, first seed: accuracy, and the selected data's classes."
    return [Picture("headline", caption, panels)]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: all selection methods on digits, with SGD, server momentum and Adam.",
    _grid,
    _report,
)
