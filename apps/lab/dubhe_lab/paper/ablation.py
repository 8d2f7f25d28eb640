"""Beyond the paper: all selection methods side by side, by K, by skew and with many classes."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import (
    SKEW,
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Seeds,
    spread,
)
from dubhe_lab.paper.page import Section
from dubhe_lab.paper.panels import draw_balance
from dubhe_lab.paper.studies import CLIENTS, LETTERS, studies, study_cell
from dubhe_lab.paper.trainings import methods_of, trainings
from dubhe_lab.report.methods import METHODS, SEEING_LOSSES
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

_METHODS: Final = tuple(Method(name) for name in METHODS if name not in SEEING_LOSSES)
"""Without loss-based methods, since a study trains no model."""
_ROUNDS: Final = {"full": 200, "small": 20}
_SEEDS: Final = (0, 1, 2)
_PARTICIPANTS: Final = {"full": (10, 20, 50, 100, 200, 500, 1000), "small": (10, 50)}
_SKEWS: Final = {
    "full": [{"rho": rho, "emd": emd} for rho in (2.0, 5.0, 10.0) for emd in (0.5, 1.0, 1.5)],
    "small": [{"rho": 10.0, "emd": emd} for emd in (0.5, 1.5)],
}
_LETTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "full": {**LETTERS, "num_rounds": 50},
    "small": {**LETTERS, "num_clients": 400, "num_rounds": 5},
}
_TRAINING_ROUNDS: Final = {"full": 120, "small": 12}


def _grid(options: PaperSettings) -> Grid:
    """Return the cells of each table's row of methods; two tables show K = 20, rho 10, EMD 1.5."""
    scale = options.scale
    usual = {**SKEW, "num_clients": CLIENTS[scale], "num_rounds": _ROUNDS[scale] // 2}
    varied = {
        **{
            f"K = {number}": {**usual, "num_participants": number}
            for number in _PARTICIPANTS[scale]
        },
        **{_skew(of): {**usual, **of} for of in _SKEWS[scale]},
        "letters": _LETTERS[scale],
    }
    trained: dict[str, list[Cell]] = {}
    if "MNIST" in options.datasets:
        rounds = options.num_rounds or _TRAINING_ROUNDS[scale]
        trained = trainings("MNIST", "10/1.5", options, _METHODS, num_rounds=rounds)
    return {
        "usual": studies(options, _METHODS, _SEEDS, num_rounds=_ROUNDS[scale]),
        **{
            name: {str(method): [study_cell(method, **given)] for method in _METHODS}
            for name, given in varied.items()
        },
        "accuracy": trained,
    }


def _skew(of: Mapping[str, float]) -> str:
    return f"{of['rho']:g}/{of['emd']:g}"


def _report(options: PaperSettings, results: Results) -> Section:
    scale = options.scale
    columns = (
        *("selection", "EMD*", "bias", "local EMD"),
        f"coverage in {_reached_in(options)}",
        "effective clients",
    )
    usual = [
        [name, *_figures(of_seeds), spread(_accuracies(results["accuracy"].get(name, {})))]
        for name, of_seeds in results["usual"].items()
    ]
    letters = [[name, *_figures(of_seeds)] for name, of_seeds in results["letters"].items()]
    numbers = [f"K = {number}" for number in _PARTICIPANTS[scale]]
    skews = [_skew(of) for of in _SKEWS[scale]]
    num_letters = _LETTERS[scale]["num_clients"]
    return Section(
        "ablation",
        "Selection methods side by side",
        [
            (
                f"N = {CLIENTS[scale]}, rho = {SKEW['rho']:g}, EMD_avg = {SKEW['emd']:g}, "
                "K = 20 and H = 20 unless noted. "
                "EMD* is the selected data's mean distance from uniform, and bias the distance of "
                "the mean over all rounds; local EMD is the other label term of the bound."
            )
        ],
        [
            Table(
                f"K = 20, {_ROUNDS[scale]} rounds, mean and spread over seeds",
                (*columns, "accuracy, last 5"),
                usual,
            ),
            Table(
                "Mean EMD* by the number of participants K",
                ("selection", *map(str, _PARTICIPANTS[scale])),
                _distances(results, numbers),
            ),
            Table(
                "Mean EMD* by the skew of the federation, rho/EMD_avg",
                ("selection", *skews),
                _distances(results, skews),
            ),
            Table(f"Like FEMNIST: 52 classes, N = {num_letters}, G = {{1, 52}}", columns, letters),
        ],
        _pictures(options, results["usual"]),
    )


def _pictures(options: PaperSettings, usual: Mapping[str, Seeds]) -> list[Picture]:
    points = {
        name: (_mean(of_seeds, "coverage_100"), _mean(of_seeds, "mean_emd"))
        for name, of_seeds in usual.items()
        if of_seeds
    }
    if not points:
        return []
    caption = "Balance (lower is better) by the share of clients reached (right is better), K = 20."
    panel = partial(
        draw_balance, points=points, num_rounds=_reached_in(options), title="Balance and spread"
    )
    return [Picture("ablation", caption, [panel], height=4.8)]


def _reached_in(options: PaperSettings) -> int:
    """Return the number of rounds over which coverage is counted."""
    return min(100, _ROUNDS[options.scale])


def _mean(of_seeds: Seeds, name: str) -> float:
    return fmean(result[name] for result in of_seeds.values())


def _figures(of_seeds: Seeds) -> list[str]:
    digits = {"mean_emd": 3, "bias": 3, "mean_local_emd": 2, "coverage_100": 2}
    return [
        spread((result[name] for result in of_seeds.values()), number)
        for name, number in (digits | {"effective_clients": 0}).items()
    ]


def _distances(results: Results, names: Sequence[str]) -> list[list[str]]:
    """Return a row for each method, with the mean distance in each of these federations."""
    return [
        [
            str(method),
            *(
                spread(result["mean_emd"] for result in results[name][str(method)].values())
                for name in names
            ),
        ]
        for method in _METHODS
    ]


def _accuracies(of_seeds: Seeds) -> list[float]:
    return [of["final_accuracy"] for of in methods_of(of_seeds)]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: every selection method by K, skew and number of classes.", _grid, _report
)
