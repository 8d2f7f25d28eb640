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

__all__ = [
    "FIXED_POINT_SCALE",
    "MAX_SAMPLES",
    "average_emd",
    "balanced_distribution",
    "coverage",
    "distance_to_uniform",
    "fixed_point_distribution",
    "global_distribution",
    "imbalance_ratio",
    "label_distribution",
    "population_distribution",
    "with_square",
]

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


def fixed_point_distribution(label_counts: ArrayLike) -> NDArray[np.int64]:
    """Return ``p_l`` in integers of sum ``FIXED_POINT_SCALE``, by the largest remainder.

    Only integers are encrypted, so that no exponent of a float travels in the clear. The fixed
    sum lets whoever decrypts a sum of distributions count how many were added. Ties between
    remainders go to the lower class. Label counts of shape (C,) that are negative, or not from 1 to
    below 2**42 in all, are a `SettingsError`.

    >>> fixed_point_distribution([1, 1, 1]).tolist()
    [349526, 349525, 349525]
    """
    counts = np.asarray(label_counts, dtype=np.int64)
    total = sum(counts.tolist())  # Python's integers do not overflow
    if np.any(counts < 0) or not 0 < total < MAX_SAMPLES:
        raise SettingsError(
            "Label counts must be non-negative with at least one sample and fewer than 2**42 in "
            "all; leave out clients without data."
        )
    quotients, remainders = np.divmod(counts * FIXED_POINT_SCALE, total)
    missing = FIXED_POINT_SCALE - int(quotients.sum())
    quotients[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return np.asarray(quotients, dtype=np.int64)


def with_square(distribution: ArrayLike) -> NDArray[np.int64]:
    """Return ``p_l`` and behind it ``||p_l||_2^2``, shape (C + 1,), all in rounded fixed point.

    >>> (with_square(fixed_point_distribution([3, 1])) / FIXED_POINT_SCALE).tolist()
    [0.75, 0.25, 0.625]
    """
    shares = np.asarray(distribution, dtype=np.int64)
    # Squares are in units of 1 / S**2; half of S rounds to the nearest unit of 1 / S.
    square = (int(shares @ shares) + FIXED_POINT_SCALE // 2) // FIXED_POINT_SCALE
    return np.append(shares, square)


def balanced_distribution(
    distribution: ArrayLike, target: ArrayLike, weight: float, largest_weight: float
) -> NDArray[np.int64]:
    """Return the distribution that is uniform where that of a client is the wanted one.

    ``q = u + w (p_l - t) / r`` with r such that no share is negative. The q of several clients are
    as far from uniform together as their weighted data is from the target, up to the factor r.
    ``p_l`` and q are integers of sum ``FIXED_POINT_SCALE``, shape (C,); the target ``t`` sums to 1;
    the weight ``w`` says how much the client counts, relative to the mean.

    >>> p_l = fixed_point_distribution([3, 1])
    >>> bool((balanced_distribution(p_l, [0.5, 0.5], 1.0, 1.0) == p_l).all())
    True
    >>> (balanced_distribution(p_l, [0.75, 0.25], 2.0, 4.0) / FIXED_POINT_SCALE).tolist()
    [0.5, 0.5]
    """
    shares = np.asarray(distribution, dtype=np.float64)
    wanted = np.asarray(target, dtype=np.float64)
    ratio = largest_weight * wanted.size * wanted.max()
    exact = FIXED_POINT_SCALE * (1.0 / wanted.size - weight * wanted / ratio)
    exact = np.maximum(exact + weight * shares / ratio, 0.0)
    whole = np.floor(exact).astype(np.int64)
    missing = FIXED_POINT_SCALE - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return np.asarray(whole, dtype=np.int64)
