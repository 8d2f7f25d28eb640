"""Unbiasedness: the selected data's distance from uniform for K = 10 ... N (paper, 6.3.1)."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Final, get_args

from dubhe_lab.data import PartitionKind
from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    Seeds,
    spread,
)
from dubhe_lab.paper.panels import draw_unbiasedness
from dubhe_lab.paper.studies import CLIENTS, studies
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

_REDUCTION: Final = 0.644
"""Section 6.3.1: the reduction of ``||p_o - p_u||_1`` relative to random selection, at 10/1.5."""

_METHODS: Final = (
    Method("random"),
    Method("dubhe-paper", 1),
    Method("dubhe-paper", 10),
    Method("dubhe"),
    Method("greedy"),
)
_PARTICIPANTS: Final = {"full": (10, 20, 50, 100, 200, 500, 1000), "small": (10, 50, 200)}
_ROUNDS: Final = {"full": 100, "small": 20}
_SEEDS: Final = (0, 1, 2)
_COLUMNS: Final = ("K", *map(str, _METHODS), "fall, H=1", "fall, dubhe")


def _grid(options: PaperSettings) -> Grid:
    rounds = _ROUNDS[options.scale]
    return {
        (kind, number): studies(
            options, _METHODS, _SEEDS, num_participants=number, num_rounds=rounds, generator=kind
        )
        for kind in get_args(PartitionKind)
        for number in _PARTICIPANTS[options.scale]
    }


def _report(options: PaperSettings, results: Results) -> Section:
    tables, panels = [], []
    for kind in get_args(PartitionKind):
        bars = {number: results[kind, number] for number in _PARTICIPANTS[options.scale]}
        caption = f"Mean distance from uniform over rounds and seeds, {kind} clients"
        rows = [_row(participants, of) for participants, of in bars.items()]
        tables.append(Table(caption, _COLUMNS, rows))
        first = next(iter(bars.values()))
        panels.append(
            partial(
                draw_unbiasedness,
                participants=list(bars),
                means=_series(bars, "mean_emd"),
                deviations=_series(bars, "sd_emd"),
                global_distance=fmean(r["global_emd"] for r in first["random"].values()),
                title=f"{kind} clients",
            )
        )
    return Section(
        "Data unbiasedness",
        [
            (
                f"Federations with rho = 10, EMD_avg = 1.5 and N = {CLIENTS[options.scale]}, "
                f"{_ROUNDS[options.scale]} selections each. The paper says that Dubhe reduces the "
                f"distance by {_REDUCTION:.1%} relative to random selection, but not for which K."
            ),
            (
                "The paper does not say how it draws clients, so we use two generators: Dirichlet "
                "distributions, and mixtures of the global distribution with one or two dominating "
                "classes."
            ),
        ],
        tables,
        [
            Picture(
                "unbiasedness",
                "The selected data's distance from uniform by the number of clients that train: "
                "bars show the mean, dots the standard deviation over rounds.",
                panels,
            )
        ],
    )


def _series(bars: Results, name: str) -> dict[str, list[float]]:
    return {
        str(method): [
            fmean(result[name] for result in of[str(method)].values()) for of in bars.values()
        ]
        for method in _METHODS
    }


def _row(participants: int, of: Mapping[str, Seeds]) -> list[str]:
    means = {name: [of["mean_emd"] for of in of_seeds.values()] for name, of_seeds in of.items()}
    falls = (
        1 - fmean(means[name]) / fmean(means["random"]) for name in ("dubhe-paper, H=1", "dubhe")
    )
    return [
        str(participants),
        *(spread(values) for values in means.values()),
        *(f"{fall:.1%}" for fall in falls),
    ]


EXPERIMENT: Final = Experiment(
    "Distance of the selected data from uniform for K = 10 ... 1000.",
    _grid,
    _report,
    needs_all=True,
)
