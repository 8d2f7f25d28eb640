"""Label distributions, as floats and in fixed point.

Symbols of the paper: ``p_l`` is one client's label distribution, ``p_g`` the mean over all
clients, ``p_u`` the uniform distribution.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.errors import SettingsError

FIXED_POINT_SCALE: Final = 2**20
"""S: the sum of the integers in a fixed-point label distribution. Each share is off by at most
1e-6."""

MAX_SAMPLES: Final = 2**42
"""A client must have fewer samples than this, so that their number times S fits in 64 bits."""


def label_distribution(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return ``p_l``: the share of each class, in rows that sum to 1, from counts (..., C).

    Raises `SettingsError` for a negative or non-finite count and for a row without samples.

    >>> label_distribution([6, 2, 0])
    array([0.75, 0.25, 0.  ])
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    totals = counts.sum(axis=-1, keepdims=True)
    # A NaN fails every comparison, so each check states what must hold, not what must not.
    if not (counts.size and np.all(counts >= 0) and np.all((totals > 0) & (totals < np.inf))):
        raise SettingsError(
            "Label counts must be non-negative numbers with at least one sample for each client; "
            "leave out clients without data."
        )
    return np.asarray(counts / totals)


def global_distribution(label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return ``p_g``, shape (C,): the class shares over all clients' label counts (N, C).

    >>> global_distribution([[2, 0], [1, 1]])
    array([0.75, 0.25])
    """
    return label_distribution(np.asarray(label_counts).sum(axis=0))


def distance_to_uniform(distribution: ArrayLike) -> float:
    """Return ``||p - p_u||_1`` (eq. 4), between 0 and 2, for shares (C,) that sum to 1.

    >>> distance_to_uniform([0.75, 0.25])
    0.5
    """
    shares = np.asarray(distribution, dtype=np.float64)
    return float(np.abs(shares - 1.0 / shares.size).sum())


def fixed_point_distribution(
    label_counts: ArrayLike, total: int = FIXED_POINT_SCALE
) -> NDArray[np.int64]:
    """Return ``p_l`` in fixed point: integers that add up to `total`, by largest remainder.

    Only integers are encrypted, because encrypted floats would show their exponents. Since every
    distribution has the same total, whoever decrypts a sum can tell how many were added. If clients
    differ in weight, a client's total is its weight. Ties between remainders go to the lower class.

    Raises `SettingsError` if a label count, shape (C,), is negative, or if they do not add up to
    at least 1 and less than 2**42.

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
    """Return ``w p_l`` followed by ``w ||p_l||_2^2``, shape (C + 1,), all in fixed point.

    >>> (with_square(fixed_point_distribution([3, 1])) / FIXED_POINT_SCALE).tolist()
    [0.75, 0.25, 0.625]
    """
    integers = np.asarray(shares, dtype=np.int64)
    total = int(integers.sum())
    # Adding half of the total rounds to the nearest unit.
    return np.append(integers, (int(integers @ integers) + total // 2) // total)
