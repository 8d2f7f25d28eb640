"""Measures how uniform each round's data is, in a simulation where labels are known."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.distribution import distance_to_uniform, global_distribution
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan

_DRAWS = 20


def known_labels(
    label_counts: ArrayLike, seed: int = 0
) -> Callable[[Plan, float], dict[str, float]]:
    """Return a function for `on_selection` that measures how far a round's data is from uniform.

    It adds two metrics to each round: `selection-distance`, from 0 to 2, and `random-distance`, the
    mean over twenty random selections of the same size. A round selected at random has neither.

    Parameters
    ----------
    label_counts : array_like of float, shape (N, C)
        One row per partition-id: samples per class, or shares if all clients count the same.
    seed : int (default: 0)
        Fixes the random selections.

    Raises
    ------
    SettingsError
        If `label_counts` is not such a table. The function raises it if a client has no row.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> from dubhe_flwr.serverapp import Dubhe
    >>> counts = [[40, 9, 1], [30, 9, 0], [0, 1, 9]] * 10
    >>> strategy = Dubhe(FedAvg(), num_participants=5, on_selection=known_labels(counts))
    """
    try:
        weighted = np.asarray(label_counts, dtype=np.float64)
    except (TypeError, ValueError):  # such as rows of different lengths
        weighted = np.empty(0)
    if weighted.ndim != 2:
        raise SettingsError(
            "label_counts must be a table of numbers: one row for each partition-id, with one "
            "number for each class; count_labels(labels, num_classes) makes such a row."
        )
    rows = {str(row): row for row in range(len(weighted))}

    def distance(clients: Sequence[int] | NDArray[np.int64]) -> float:
        return distance_to_uniform(global_distribution(weighted[list(clients)]))

    def measure(plan: Plan, _seconds: float) -> dict[str, float]:
        if plan.fallback:  # it may have no nodes, or nodes without a known alias
            return {}
        if unknown := [alias for alias in plan.aliases if alias not in rows]:
            raise SettingsError(
                f"label_counts has {len(rows)} rows, and none for client {unknown[0]!r}; pass "
                "known_labels one row for each partition-id."
            )
        chosen = [rows[alias] for alias in plan.aliases]
        rng = generator(seed, "known-labels", plan.server_round)
        draws = (rng.choice(len(weighted), len(chosen), replace=False) for _ in range(_DRAWS))
        return {
            "selection-distance": distance(chosen),
            "random-distance": fmean(map(distance, draws)),
        }

    return measure
