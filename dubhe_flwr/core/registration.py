"""The paper's rule: registration (Algorithm 1) and the participation probability (eq. 6)."""

from collections.abc import Mapping
from numbers import Real
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.codebook import Category, Codebook
from dubhe_flwr.core.distribution import label_distribution
from dubhe_flwr.errors import SettingsError

MAX_REGISTRY_LENGTH: Final = 4096
"""Longest registry accepted; longer ones are too sparse to balance anything."""

PAPER_THRESHOLDS: Final[Mapping[tuple[int, ...], Mapping[int, float]]] = {
    (1, 2, 10): {1: 0.7, 2: 0.1}
}
"""The thresholds that section 6.3.3 gives, by reference set."""


def check_thresholds(codebook: Codebook, thresholds: Mapping[int, float]) -> dict[int, float]:
    """Return ``sigma`` as a dictionary in ascending order, after checking it and the codebook.

    Thresholds map each ``i`` in the reference set except ``C`` to a ``sigma_i`` in [0, 1];
    ``sigma_C`` is always 0 and may be given as such.

    Raises `SettingsError` if a threshold is missing, unknown or out of range, or if the registry
    would be too long.

    >>> check_thresholds(Codebook((1, 2, 10)), {2: 0.1, 1: 0.7})
    {1: 0.7, 2: 0.1}
    """
    # All sizes but the largest have at least C slots; adding up thousands of them takes seconds.
    least = (len(codebook.reference_set) - 1) * codebook.num_classes
    if least > MAX_REGISTRY_LENGTH or codebook.length > MAX_REGISTRY_LENGTH:
        raise SettingsError(
            f"The {len(codebook.reference_set)} sizes of this reference_set make a registry of "
            f"more than {MAX_REGISTRY_LENGTH} slots: leave out the middle sizes."
        )
    *sizes, num_classes = codebook.reference_set
    if not isinstance(thresholds, Mapping):
        raise SettingsError(
            f"thresholds={thresholds!r} must map sizes to shares, as in {{1: 0.7, 2: 0.1}}."
        )
    if thresholds.get(num_classes, 0.0) != 0.0:
        raise SettingsError(
            f"thresholds[{num_classes}]={thresholds[num_classes]} must be 0 or left out: a client "
            "without dominating classes always fits the last category."
        )
    given = {size: share for size, share in thresholds.items() if size != num_classes}
    if set(given) != set(sizes):
        raise SettingsError(
            f"thresholds={dict(thresholds)} must name exactly the sizes {tuple(sizes)} of "
            f"reference_set={codebook.reference_set}."
        )
    for size, share in given.items():
        if not (isinstance(share, Real) and 0.0 <= share <= 1.0):
            raise SettingsError(
                f"thresholds[{size}]={share!r} is not a share of a client's data; use a value "
                "from 0 to 1."
            )
    return {size: float(given[size]) for size in sizes}


def dominating_category(
    label_counts: ArrayLike, codebook: Codebook, thresholds: Mapping[int, float]
) -> Category:
    """Return ``u``: the dominating classes of a client (Algorithm 1).

    Sizes ``i`` of the reference set are tried in ascending order. The ``i`` largest classes
    dominate if the smallest share among them is at least ``sigma_i``; ties go to the lower class.

    Parameters
    ----------
    label_counts : array_like of int, shape (C,)
        Samples of each class.
    codebook : Codebook
        Holds the reference set ``G`` in ascending order.
    thresholds : mapping of int to float
        ``sigma_i`` for each size except ``C``, checked by `check_thresholds`.

    Raises
    ------
    SettingsError
        If the counts do not fit the codebook or are all 0.

    Examples
    --------
    >>> codebook, sigma = Codebook((1, 2, 4)), {1: 0.7, 2: 0.2}
    >>> dominating_category([1, 8, 1, 0], codebook, sigma)
    (1,)
    >>> dominating_category([5, 1, 4, 0], codebook, sigma)
    (0, 2)
    >>> dominating_category([6, 1, 1, 2], codebook, {1: 0.7, 2: 0.3})
    (0, 1, 2, 3)
    """
    shares = label_distribution(label_counts)
    if shares.shape != (codebook.num_classes,):
        raise SettingsError(
            f"Label counts of shape {shares.shape} do not fit {codebook}; pass one count for each "
            f"of {codebook.num_classes} classes."
        )
    by_share = np.argsort(-shares, kind="stable")
    for size in codebook.reference_set[:-1]:
        if shares[by_share[size - 1]] >= thresholds[size]:
            return tuple(sorted(by_share[:size].tolist()))
    return tuple(range(codebook.num_classes))  # sigma_C = 0 is always met


def participation_probability(
    overall_registry: ArrayLike, num_participants: int
) -> NDArray[np.float64]:
    """Return ``P = min(1, K / (R_A(u) * ||R_A||_0))`` for each category (eq. 6), shape (l,).

    Every non-empty category then sends the same number of volunteers on average, K in all as long
    as no probability is capped at 1 (eqs. 7 and 8). An empty category has probability 0.

    >>> participation_probability([10, 0, 40], num_participants=4)
    array([0.2 , 0.  , 0.05])
    """
    counts = np.asarray(overall_registry, dtype=np.int64)
    filled = counts > 0
    probability = np.zeros(counts.shape)
    probability[filled] = num_participants / (counts[filled] * np.count_nonzero(filled))
    return np.minimum(1.0, probability)
