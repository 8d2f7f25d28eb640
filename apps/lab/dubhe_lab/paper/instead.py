"""Beyond the paper: other remedies for skewed labels, alone and combined with Dubhe."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    columns,
)
from dubhe_lab.paper.trainings import accuracies, digits_cell, gains, mean_gain
from dubhe_lab.report.table import Table

_KIND: Final = "instead"
_SEEDS: Final = tuple(range(10))
_ROUNDS: Final = {"full": 60, "small": 4}
_PARTICIPANTS: Final = 20
_METHODS: Final = (Method("random"), Method("dubhe"))

_INSTEAD: Final[Mapping[str, Mapping[str, Any]]] = {
    "nothing": {},
    "class-balanced loss": {"local_loss": "balanced"},
    "logit adjustment": {"local_loss": "adjusted"},
    "FedProx, mu 0.1": {"proximal": 0.1},
    "FedAvgM, 0.9": {"server_momentum": 0.9},
    "2 K clients": {"participants": 2},
    "4 K clients": {"participants": 4},
    "2 K, half the rounds": {"participants": 2, "rounds": 2},
    "4 K, a quarter": {"participants": 4, "rounds": 4},
}
"""Each remedy's changes: training settings, a factor on K, and a divisor of the rounds."""


def _cell(name: str, method: Method, seed: int, options: PaperSettings) -> Cell:
    given = dict(_INSTEAD[name])
    given["num_rounds"] = _ROUNDS[options.scale] // given.pop("rounds", 1)
    given["num_participants"] = _PARTICIPANTS * given.pop("participants", 1)
    return digits_cell(method, seed, options, **given)


def _grid(options: PaperSettings) -> Grid:
    return {
        name: columns(_METHODS, options.seeds_or(_SEEDS), partial(_cell, name, options=options))
        for name in _INSTEAD
    }


def _report(_options: PaperSettings, results: Results) -> Section:
    alone = results["nothing"]["random"]
    rows = []
    for name, given in _INSTEAD.items():
        updates = given.get("participants", 1) / given.get("rounds", 1)
        gained = [mean_gain(gains(of_seeds, alone)) for of_seeds in results[name].values()]
        if any(gained):
            rows.append([name, f"{updates:g}", *gained])
    accuracy = f"{100 * fmean(accuracies(alone)):.1f} %" if alone else "not measured yet"
    return Section(
        "What you might do instead",
        [
            (
                "Digits as in dubhe compare: N = 150, rho = 10, EMD_avg = 1.5, SGD, 60 rounds of "
                f"K = 20 clients. Random selection alone reaches: {accuracy}. Each row shows how "
                "many points of accuracy another remedy gains over that, without and with Dubhe, "
                "in the last quarter of the rounds. Client updates are totals over all rounds, "
                "relative to random selection alone. ± is the standard error of the mean over "
                "paired seeds."
            )
        ],
        [
            Table(
                "Points of accuracy gained over random selection alone",
                ("remedy", "client\nupdates", "with random\nselection", "with Dubhe"),
                rows,
            )
        ],
    )


EXPERIMENT: Final = Experiment(
    "Beyond the paper: local losses, FedProx, momentum and more clients instead of selection.",
    _grid,
    _report,
)
