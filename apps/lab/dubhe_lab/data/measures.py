"""Measures of skew and of selections, and the overall registry in the clear.

Symbols of the paper: ``p_l`` is one client's label distribution, ``p_g`` the mean over all clients,
``p_o`` the mean over the selected ones, ``rho`` the ratio of the largest to the smallest class.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.registration import dominating_category


def average_emd(label_distributions: ArrayLike, reference: ArrayLike) -> float:
    """Return ``mean_k ||p_l^k - reference||_1``, between 0 and 2, for shapes (N, C) and (C,).

    With ``p_g`` as reference this is EMD_avg, the discrepancy among clients. (The paper's formula
    omits the 1/N that its range of 0 to 2 implies.) With ``p_o`` and the selected clients it is
    the local-skew term of the bound in eq. 3.

    >>> average_emd([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    1.0
    """
    deviations = np.asarray(label_distributions, dtype=np.float64) - np.asarray(reference)
    return float(np.abs(deviations).sum(axis=1).mean())


def imbalance_ratio(distribution: ArrayLike) -> float:
    """Return ``rho``: the largest share or count over the smallest; infinite if a class is empty.

    >>> imbalance_ratio([0.5, 0.3, 0.2])
    2.5
    """
    shares = np.asarray(distribution, dtype=np.float64)
    smallest = float(shares.min())
    return float(shares.max()) / smallest if smallest > 0 else float("inf")


def coverage(selected_sets: Iterable[Iterable[int]], num_clients: int) -> float:
    """Return the share of all clients that appear in at least one selected set.

    >>> coverage([[0, 1], [1, 2]], num_clients=4)
    0.75
    """
    return len({client for selected in selected_sets for client in selected}) / num_clients


def overall_registry(
    label_counts: ArrayLike, codebook: Codebook, thresholds: Mapping[int, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Register many clients in the clear, as the reference for the encrypted sum.

    Takes label counts of shape (N, C). Returns ``R_A = sum_k R^k``, the number of clients in each
    category, and each client's slot.

    >>> overall, slots = overall_registry([[9, 1], [1, 1], [0, 5]], Codebook((1, 2)), {1: 0.7})
    >>> overall.tolist(), slots.tolist()
    ([1, 1, 1], [0, 2, 1])
    """
    categories = (
        dominating_category(row, codebook, thresholds) for row in np.asarray(label_counts)
    )
    slots = np.fromiter(map(codebook.rank, categories), dtype=np.int64)
    return np.bincount(slots, minlength=codebook.length), slots
