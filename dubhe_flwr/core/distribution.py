"""Label distributions and the figures that describe their skew.

Symbols of the paper: ``p_l`` is one client's label distribution, ``p_g`` the mean over all
clients, ``p_o`` (population distribution) the mean over the selected ones, ``p_u`` the uniform
distribution, ``rho`` the ratio of the largest to the smallest class.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError

FIXED_POINT_SCALE: Final = 2**20
"""Sum S of a label distribution in integers; an error of at most 1e-6 in each share."""

MAX_SAMPLES: Final = 2**42
"""Samples of a client are fewer: times S they fit 64 bits."""


def label_distribution(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return ``p_l``: the share of each class, in rows of sum 1, from counts of shape (..., C).

    A count that is negative or no number, and a row without samples, is a `SettingsError`.

    >>> label_distribution([6, 2, 0])
    array([0.75, 0.25, 0.  ])
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    totals = counts.sum(axis=-1, keepdims=True)
    # A NaN fails every comparison, so the checks ask for what must hold.
    if not (counts.size and np.all(counts >= 0) and np.all((totals > 0) & (totals < np.inf))):
        raise SettingsError(
            "Label counts must be non-negative numbers with at least one sample for each client; "
            "leave out clients without data."
        )
    return np.asarray(counts / totals)


def global_distribution(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return ``p_g``, shape (C,): the class proportions of all label counts (N, C) together.

    >>> global_distribution([[2, 0], [1, 1]])
    array([0.75, 0.25])
    """
    return label_distribution(np.asarray(label_counts).sum(axis=0))


def population_distribution(label_distributions: ArrayLike) -> NDArray[np.float64]:
    """Return ``p_o = sum_{k in S} p_l^k / |S|``: the mean of the selected clients' ``p_l`` (K, C).

    >>> population_distribution([[1.0, 0.0], [0.5, 0.5]])
    array([0.75, 0.25])
    """
    return np.asarray(np.mean(np.asarray(label_distributions, dtype=np.float64), axis=0))


def distance_to_uniform(distribution: ArrayLike) -> float:
    """Return ``||p - p_u||_1`` (eq. 4), between 0 and 2, of shares (C,) that sum to 1.

    >>> distance_to_uniform([0.75, 0.25])
    0.5
    """
    shares = np.asarray(distribution, dtype=np.float64)
    return float(np.abs(shares - 1.0 / shares.size).sum())


def average_emd(label_distributions: ArrayLike, reference: ArrayLike) -> float:
    """Return ``mean_k ||p_l^k - reference||_1``, between 0 and 2, of shapes (N, C) and (C,).

    With ``p_g`` as reference this is EMD_avg, the discrepancy among clients (the paper's formula
    lacks the 1/N that its range of 0 to 2 implies). With ``p_o`` and the selected clients it is
    the local-skew term of the bound in eq. 3.

    >>> average_emd([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    1.0
    """
    deviations = np.asarray(label_distributions, dtype=np.float64) - np.asarray(reference)
    return float(np.abs(deviations).sum(axis=1).mean())


def imbalance_ratio(distribution: ArrayLike) -> float:
    """Return ``rho``: the largest share or count over the smallest, infinite if a class is empty.

    >>> imbalance_ratio([0.5, 0.3, 0.2])
    2.5
    """
    shares = np.asarray(distribution, dtype=np.float64)
    smallest = float(shares.min())
    return float(shares.max()) / smallest if smallest > 0 else float("inf")


def coverage(selected_sets: Iterable[Iterable[int]], num_clients: int) -> float:
    """Return the share of all clients that were in at least one of the selected sets.

    >>> coverage([[0, 1], [1, 2]], num_clients=4)
    0.75
    """
    return len({client for selected in selected_sets for client in selected}) / num_clients


def fixed_point_distribution(
    label_counts: ArrayLike, total: int = FIXED_POINT_SCALE
) -> NDArray[np.int64]:
    """Return ``p_l`` in integers of a sum, by the largest remainder.

    Only integers are encrypted, so that no exponent of a float travels in the clear. The fixed
    sum lets whoever decrypts a sum of distributions count how many were added; where clients
    differ in weight, the sum of each is its weight. Ties between remainders go to the lower class.
    Label counts of shape (C,) that are negative, or not from 1 to below 2**42 in all, are a
    `SettingsError`.

    >>> fixed_point_distribution([1, 1, 1]).tolist()
    [349526, 349525, 349525]
    """
    counts = np.asarray(label_counts, dtype=np.int64)
    num_samples = sum(counts.tolist())  # Python's integers do not overflow
    if np.any(counts < 0) or not 0 < num_samples < MAX_SAMPLES:
        raise SettingsError(
            "Label counts must be non-negative with at least one sample and fewer than 2**42 in "
            "all; leave out clients without data."
        )
    quotients, remainders = np.divmod(counts * total, num_samples)
    missing = total - int(quotients.sum())
    quotients[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return np.asarray(quotients, dtype=np.int64)


def with_square(shares: ArrayLike) -> NDArray[np.int64]:
    """Return ``w p_l`` and behind it ``w ||p_l||_2^2``, shape (C + 1,), all in fixed point.

    >>> (with_square(fixed_point_distribution([3, 1])) / FIXED_POINT_SCALE).tolist()
    [0.75, 0.25, 0.625]
    """
    integers = np.asarray(shares, dtype=np.int64)
    total = int(integers.sum())
    # Half of the total rounds to the nearest unit.
    return np.append(integers, (int(integers @ integers) + total // 2) // total)
