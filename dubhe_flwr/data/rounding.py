"""Distributions into whole samples: no class lost, no total missed."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["controlled_rounding", "largest_remainder"]


def largest_remainder(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Return whole numbers of the given total that are as near to the shares as can be.

    Parameters
    ----------
    shares : ndarray of float64, shape (C,)
        Non-negative shares that sum to 1.
    total : int
        Sum of the result.

    Returns
    -------
    ndarray of int64, shape (C,)
        Ties between remainders go to the lower class.

    Examples
    --------
    >>> largest_remainder(np.array([0.5, 0.3, 0.2]), 7).tolist()
    [4, 2, 1]
    """
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return counts


def controlled_rounding(
    distributions: NDArray[np.float64],
    num_samples: int,
    column_totals: NDArray[np.int64],
    offsets: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Round every row to whole samples so that rows and columns both have the wanted totals.

    Each row is rounded systematically: its cumulative distribution is cut at the points
    ``offset, offset + 1, ...``, so that each share becomes one of the two whole numbers beside it
    and is kept on average. The largest remainder of each row alone would lose all classes of
    less than half a sample. The few samples by which a column then misses its total are moved
    within the rows in which they do the least harm.

    Parameters
    ----------
    distributions : ndarray of float64, shape (N, C)
        Rows that sum to 1.
    num_samples : int
        ``N_VC``, the sum of each row of the result.
    column_totals : ndarray of int64, shape (C,)
        The sum of each column of the result; ``N * N_VC`` in all.
    offsets : ndarray of float64, shape (N,)
        A number strictly between 0 and 1 for each row; best evenly spread.

    Returns
    -------
    ndarray of int64, shape (N, C)

    Examples
    --------
    >>> controlled_rounding(np.full((3, 2), 0.5), 1, np.array([1, 2]), np.array([0.2, 0.6, 0.7]))
    array([[0, 1],
           [0, 1],
           [1, 0]])
    """
    expected = distributions * num_samples
    cuts = np.floor(np.cumsum(expected, axis=1) + offsets[:, None]).astype(np.int64)
    counts = np.diff(cuts, axis=1, prepend=0)
    surplus = counts.sum(axis=0) - column_totals
    while surplus.any():
        source, target = int(np.argmax(surplus)), int(np.argmin(surplus))
        donors = np.flatnonzero(counts[:, source])
        excess = counts[donors] - expected[donors]
        order = np.argsort(excess[:, target] - excess[:, source], kind="stable")
        moving = donors[order[: min(surplus[source], -surplus[target])]]
        counts[moving, source] -= 1
        counts[moving, target] += 1
        surplus[source] -= moving.size
        surplus[target] += moving.size
    return counts
