"""Unbiasedness for K = 10 ... N: how far the selected data is from uniform (paper, 6.3.1)."""

from functools import partial
from statistics import fmean
from typing import Any, Final, get_args

from dubhe_flwr.data import PartitionKind
from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.section import Picture, Section, Table
from reproduction.cell import Cell
from reproduction.experiment import (
    SKEW,
    Experiment,
    Found,
    finished,
    spread,
)
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.paper import REDUCTION
from reproduction.selecting import study_cell

__all__ = ["EXPERIMENT", "cells_of"]

_METHODS: Final = (
    Method("random"),
    Method("dubhe-paper", 1),
    Method("dubhe-paper", 10),
    Method("dubhe"),
    Method("greedy"),
)
_PARTICIPANTS: Final = {"full": (10, 20, 50, 100, 200, 500, 1000), "small": (10, 50, 200)}
_CLIENTS: Final = {"full": 1000, "small": 200}
_ROUNDS: Final = {"full": 100, "small": 20}
_COLUMNS: Final = (
    "K",
    "all clients",
    *map(str, _METHODS),
    "fall, H=1",
    "fall, dubhe",
    "fall, paper",
)


def cells_of(
    options: Options, generator: PartitionKind, participants: int, method: Method
) -> list[Cell]:
    """Return the cells of one bar, one for each seed."""
    return [
        study_cell(
            method,
            **SKEW,
            num_clients=_CLIENTS[options.scale],
            num_participants=participants,
            num_rounds=_ROUNDS[options.scale],
            generator=generator,
            seed=seed,
        )
        for seed in options.seeds or (0,)
    ]


def _cells(options: Options) -> list[Cell]:
    return [
        cell
        for generator in get_args(PartitionKind)
        for participants in _PARTICIPANTS[options.scale]
        for method in _METHODS
        for cell in cells_of(options, generator, participants, method)
    ]


def _report(options: Options, found: Found) -> Section:
    from reproduction.panels import draw_unbiasedness  # noqa: PLC0415 - an extra

    tables, panels = [], []
    for generator in get_args(PartitionKind):
        bars = {
            participants: {
                str(method): list(
                    finished(cells_of(options, generator, participants, method), found)
                )
                for method in _METHODS
            }
            for participants in _PARTICIPANTS[options.scale]
        }
        tables.append(
            Table(
                f"Mean distance from uniform over rounds and seeds, {generator} clients",
                _COLUMNS,
                [_row(participants, of) for participants, of in bars.items()],
            )
        )
        first = next(iter(bars.values()))
        panels.append(
            partial(
                draw_unbiasedness,
                participants=list(bars),
                means=_series(bars, "mean_emd"),
                deviations=_series(bars, "sd_emd"),
                global_distance=fmean(r["global_emd"] for r in first["random"]),
                title=f"{generator} clients",
            )
        )
    return Section(
        "unbiasedness",
        "Data unbiasedness",
        [
            (
                f"Federations of rho = 10 and EMD_avg = 1.5, N = {_CLIENTS[options.scale]}, "
                f"{_ROUNDS[options.scale]} selections each. The paper says that Dubhe reduces the "
                f"distance by {REDUCTION:.1%} against random selection, without naming K."
            ),
            (
                "The paper leaves its generator of clients open, so there are two: Dirichlet "
                "distributions, and mixtures of the global distribution with one or two dominating "
                "classes."
            ),
        ],
        tables,
        [
            Picture(
                "unbiasedness",
                "Distance of the selected data from uniform over the number of clients that train: "
                "bars show the mean, dots the standard deviation over rounds.",
                picture([[panel] for panel in panels], (11, 8.8)),
            )
        ],
    )


def _series(bars: dict[int, dict[str, list[dict[str, Any]]]], name: str) -> dict[str, list[float]]:
    return {
        str(method): [fmean(result[name] for result in of[str(method)]) for of in bars.values()]
        for method in _METHODS
    }


def _row(participants: int, of: dict[str, list[dict[str, Any]]]) -> list[str]:
    means = {name: [result["mean_emd"] for result in results] for name, results in of.items()}
    return [
        str(participants),
        spread([result["global_emd"] for result in of["random"]]),
        *(spread(values) for values in means.values()),
        *(_fall(means[name], means["random"]) for name in ("dubhe-paper, H=1", "dubhe")),
        f"{REDUCTION:.1%}",
    ]


def _fall(means: list[float], of_random: list[float]) -> str:
    return f"{1 - fmean(means) / fmean(of_random):.1%}"


EXPERIMENT: Final = Experiment(_cells, _report)
