"""Calibrated participation: probabilities fitted to what the clients of a category really hold.

Eq. 6 treats a category as if its clients held nothing but its dominating classes, all alike.
With encrypted sums of their ``p_l`` and ``||p_l||_2^2`` an agent can instead choose the weights
``w_u`` of the categories by a small convex programme. With ``M`` the mean distributions and ``s``
the mean squared norms of the categories, and V the expected number of volunteers, it minimises

    K ||M w - p_u||^2 + (s w - ||M w||^2) + coverage * V sum_u w_u^2 / R_A(u)

over ``w >= 0`` with ``sum_u w_u = 1``, and takes ``P_u = V w_u / R_A(u)``. The terms are, K times
each, the squared bias and the sampling variance of ``p_o``, and the share of its volunteers that
a draw has in common with another, at the price of the operator.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE, fixed_point_distribution, with_square
from dubhe_flwr.errors import SettingsError

__all__ = ["calibrated_probability", "moments"]

Floats: TypeAlias = NDArray[np.float64]

_CENTERING: Final = 0.1
_MOST_STEPS: Final = 100
_TOLERANCE: Final = 1e-10


def moments(
    distribution: ArrayLike,
    slot: int,
    overall_registry: ArrayLike,
    codebook: Codebook,
    min_cohort: int,
) -> NDArray[np.int64]:
    """Return what a client adds to the sums of its category: ``p_l`` and ``||p_l||_2^2``.

    In a category with fewer than `min_cohort` clients, where the sum would come close to a
    client's own, each counts as one that holds the dominating classes in equal shares.

    Parameters
    ----------
    distribution : array_like of int, shape (C,)
        ``p_l`` in fixed point, from `fixed_point_distribution`.
    slot : int
        Slot of the client's category.
    overall_registry : array_like of int, shape (l,)
        ``R_A``.
    codebook : Codebook
        Says which classes dominate in the category.
    min_cohort : int
        Fewest clients of which a sum may tell anything.

    Returns
    -------
    ndarray of int64, shape (l, C + 1)
        Zero but for the row of `slot`; all in units of ``1 / FIXED_POINT_SCALE``.

    Examples
    --------
    >>> p_l, codebook = fixed_point_distribution([3, 1]), Codebook((1, 2))
    >>> (moments(p_l, 0, [3, 0, 0], codebook, min_cohort=3) / FIXED_POINT_SCALE)[0].tolist()
    [0.75, 0.25, 0.625]
    >>> (moments(p_l, 0, [2, 0, 0], codebook, min_cohort=3) / FIXED_POINT_SCALE)[0].tolist()
    [1.0, 0.0, 1.0]
    """
    shares = np.asarray(distribution, dtype=np.int64)
    if np.asarray(overall_registry)[slot] < min_cohort:
        dominating = np.zeros(codebook.num_classes, dtype=np.int64)
        dominating[list(codebook.unrank(slot))] = 1
        shares = fixed_point_distribution(dominating)
    table = np.zeros((codebook.length, codebook.num_classes + 1), dtype=np.int64)
    table[slot] = with_square(shares)
    return table


def calibrated_probability(
    overall_registry: ArrayLike,
    moment_sums: ArrayLike,
    num_participants: int,
    *,
    num_volunteers: int | None = None,
    coverage: float = 1.0,
    floor: float = 0.1,
) -> Floats:
    """Return the probability with which the clients of each category volunteer.

    Parameters
    ----------
    overall_registry : array_like of int, shape (l,)
        ``R_A``: the number of clients in each category.
    moment_sums : array_like of int, shape (l, C + 1)
        Sums of the `moments` of all clients.
    num_participants : int
        ``K``, the clients that will be chosen in a round.
    num_volunteers : int, optional (default: `num_participants`)
        How many clients shall volunteer in a draw, on average; more than K if groups are chosen
        among them.
    coverage : float (default: 1.0)
        Price of calling the same clients again and again, relative to that of the sampling
        variance. With 0 it is always the few best ones.
    floor : float (default: 0.1)
        Smallest probability of a yes, and of a no, as shares of those of uniform selection. With
        0 a category may be shut out or always called, which would tell the server who is in it.

    Returns
    -------
    ndarray of float64, shape (l,)
        Between 0 and 1, and 0 where the category is empty; `num_volunteers` clients volunteer
        on average if there are as many.

    Raises
    ------
    SettingsError
        If a setting is out of range.

    Examples
    --------
    >>> both_classes_rare = np.array([[90, 10, 90], [0, 0, 0], [5, 5, 5]]) * FIXED_POINT_SCALE
    >>> calibrated_probability([100, 0, 10], both_classes_rare, 5, coverage=0).round(3)
    array([0.005, 0.   , 0.455])
    """
    counts = np.asarray(overall_registry, dtype=np.int64)
    volunteers = num_participants if num_volunteers is None else num_volunteers
    if not (coverage >= 0.0 and 0.0 <= floor <= 1.0 and 1 <= num_participants <= volunteers):
        raise SettingsError(
            f"coverage={coverage} must be from 0 up, floor={floor} a share from 0 to 1, and "
            f"num_volunteers={volunteers} at least num_participants={num_participants} >= 1."
        )
    filled, num_clients = counts > 0, int(counts.sum())
    uniform = min(1.0, volunteers / max(1, num_clients))
    probability = np.where(filled, uniform, 0.0)
    if uniform == 1.0 or floor == 1.0:
        return probability
    members = counts[filled].astype(np.float64)
    means = np.asarray(moment_sums)[filled] / (FIXED_POINT_SCALE * members[:, None])
    weights = _minimise(
        factors=np.sqrt(1.0 - 1.0 / num_participants) * means[:, :-1],
        diagonal=coverage * volunteers / (num_participants * members),
        linear=means[:, -1] / num_participants,
        lower=floor * uniform * members / volunteers,
        upper=(1.0 - floor * (1.0 - uniform)) * members / volunteers,
        start=members / num_clients,
    )
    probability[filled] = np.minimum(1.0, volunteers * weights / members)
    return probability


def _minimise(
    *,
    factors: Floats,
    diagonal: Floats,
    linear: Floats,
    lower: Floats,
    upper: Floats,
    start: Floats,
) -> Floats:
    """Minimise ``||F^T w||^2 + w D w + g w`` over ``lower <= w <= upper`` with a fixed sum.

    A primal-dual interior point method. Every step keeps the sum of the start and stays between
    the bounds, so that even a search that were cut short would give weights that can be used. The
    matrix of a step is diagonal but for a term of rank C, so that a step costs O(n C^2).
    """
    weights, ones = start.copy(), np.ones_like(start)
    barrier = float(np.abs(linear).max()) / len(start)
    at_lower, at_upper = barrier / (start - lower), barrier / (upper - start)
    for _ in range(_MOST_STEPS):
        below, above = weights - lower, upper - weights
        gap = float(at_lower @ below + at_upper @ above)
        if gap < _TOLERANCE:
            break
        target = _CENTERING * gap / (2 * len(start))
        gradient = 2 * (factors @ (factors.T @ weights) + diagonal * weights) + linear
        curvature = 2 * diagonal + at_lower / below + at_upper / above
        scaled = factors / curvature[:, None]
        core = np.eye(factors.shape[1]) / 2 + factors.T @ scaled
        right = np.stack([target / below - target / above - gradient, ones], axis=1)
        # Sherman-Morrison-Woodbury.
        solved = right / curvature[:, None] - scaled @ np.linalg.solve(core, scaled.T @ right)
        step = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum())
        # Twice, since the first difference may lose digits where weights are at a bound.
        step -= solved[:, 1] * (step.sum() / solved[:, 1].sum())
        step_lower = target / below - at_lower - at_lower / below * step
        step_upper = target / above - at_upper + at_upper / above * step
        changes = np.concatenate([step / below, -step / above, step_lower / at_lower])
        # Above 0: as the gap shrinks, something comes closer to its bound.
        fastest = -min(changes.min(), (step_upper / at_upper).min())
        length = min(1.0, 0.99 / fastest)
        weights += length * step
        at_lower += length * step_lower
        at_upper += length * step_upper
    return weights
