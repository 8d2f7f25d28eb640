"""Beyond the paper: all selection methods side by side, by K, by skew and with many classes."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_lab.experiments import METHODS
from dubhe_lab.experiments.settings import SEEING_LOSSES
from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import (
    SKEW,
    Experiment,
    Found,
    Method,
    PaperSettings,
    finished,
    spread,
)
from dubhe_lab.paper.page import Picture, Section
from dubhe_lab.paper.panels import draw_balance
from dubhe_lab.paper.studies import CLIENTS, LETTERS, study_cell, study_cells
from dubhe_lab.paper.trainings import training_cell
from dubhe_lab.report.picture import picture
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


def _selection(options: PaperSettings, method: Method) -> list[Cell]:
    """Return the cells of the main table, one per seed."""
    return study_cells(method, options, _SEEDS, num_rounds=_ROUNDS[options.scale])


def _varied(options: PaperSettings, method: Method, **given: Any) -> Cell:
    """Return a cell with another number of participants or another federation."""
    scale = options.scale
    usual = {"num_clients": CLIENTS[scale], "num_rounds": _ROUNDS[scale] // 2}
    return study_cell(method, **{**SKEW, **usual, **given})


def _variations(options: PaperSettings, method: Method) -> tuple[list[Cell], list[Cell]]:
    """Return the cells of other numbers of participants, and of other skews."""
    scale = options.scale
    by_number = [_varied(options, method, num_participants=n) for n in _PARTICIPANTS[scale]]
    return by_number, [_varied(options, method, **skew) for skew in _SKEWS[scale]]


def _letters(options: PaperSettings, method: Method) -> Cell:
    return study_cell(method, **_LETTERS[options.scale])


def _trainings(options: PaperSettings, method: Method) -> list[Cell]:
    if "MNIST" not in options.datasets:
        return []
    rounds = options.num_rounds or _TRAINING_ROUNDS[options.scale]
    return [
        training_cell("MNIST", "10/1.5", method, seed, options, num_rounds=rounds)
        for seed in options.seeds or (0,)
    ]


def _cells(options: PaperSettings) -> list[Cell]:
    cells: list[Cell] = []
    for method in _METHODS:
        cells += _selection(options, method)
        cells += [cell for row in _variations(options, method) for cell in row]
        cells.append(_letters(options, method))
    for method in _METHODS:
        cells += _trainings(options, method)
    # Two tables show K = 20 in the usual federation.
    return list({cell.key: cell for cell in cells}.values())


def _report(options: PaperSettings, found: Found) -> Section:
    scale = options.scale
    columns = (
        *("selection", "EMD*", "bias", "local EMD"),
        f"coverage in {_reached_in(options)}",
        "effective clients",
    )
    usual = [
        [
            str(method),
            *_figures(_selection(options, method), found),
            spread(_accuracies(options, method, found)),
        ]
        for method in _METHODS
    ]
    by_number, by_skew = (
        [
            [str(method), *_distances(_variations(options, method)[which], found)]
            for method in _METHODS
        ]
        for which in (0, 1)
    )
    letters = [[str(method), *_figures([_letters(options, method)], found)] for method in _METHODS]
    skews = (f"{skew['rho']:g}/{skew['emd']:g}" for skew in _SKEWS[scale])
    number = _LETTERS[scale]["num_clients"]
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
                by_number,
            ),
            Table(
                "Mean EMD* by the skew of the federation, rho/EMD_avg",
                ("selection", *skews),
                by_skew,
            ),
            Table(f"Like FEMNIST: 52 classes, N = {number}, G = {{1, 52}}", columns, letters),
        ],
        _pictures(options, found),
    )


def _pictures(options: PaperSettings, found: Found) -> list[Picture]:
    results = {
        str(method): list(finished(_selection(options, method), found)) for method in _METHODS
    }
    points = {
        name: (fmean(r["coverage_100"] for r in of), fmean(r["mean_emd"] for r in of))
        for name, of in results.items()
        if of
    }
    if not points:
        return []
    caption = "Balance (lower is better) by the share of clients reached (right is better), K = 20."
    panel = partial(
        draw_balance, points=points, num_rounds=_reached_in(options), title="Balance and spread"
    )
    return [Picture("ablation", caption, picture([panel], height=4.8))]


def _reached_in(options: PaperSettings) -> int:
    """Return the number of rounds over which coverage is counted."""
    return min(100, _ROUNDS[options.scale])


def _figures(cells: list[Cell], found: Found) -> list[str]:
    results = list(finished(cells, found))
    digits = {"mean_emd": 3, "bias": 3, "mean_local_emd": 2, "coverage_100": 2}
    return [
        spread([result[name] for result in results], number)
        for name, number in (digits | {"effective_clients": 0}).items()
    ]


def _distances(cells: list[Cell], found: Found) -> list[str]:
    return [spread([result["mean_emd"] for result in finished([cell], found)]) for cell in cells]


def _accuracies(options: PaperSettings, method: Method, found: Found) -> list[float]:
    return [
        result["methods"][method.kind]["final_accuracy"]
        for result in finished(_trainings(options, method), found)
    ]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: every selection method by K, skew and number of classes.",
    _cells,
    _report,
    needs_all=False,
)
