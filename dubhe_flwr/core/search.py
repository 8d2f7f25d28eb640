"""Exact parameter search: the expected population distribution under each candidate threshold.

``E[p_o] = sum_k P_k p_l^k / sum_k P_k`` consists of sums over clients, so nodes can decrypt it for
all candidates at once. The paper estimates it from tries of each candidate (section 5.3).
"""

from fractions import Fraction
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.errors import SettingsError

_MAX_CANDIDATES: Final = 64


def candidate_grid(codebook: Codebook) -> list[dict[int, float]]:
    """Return a coarse grid of thresholds: ``sigma_i`` for each size in the reference set except C.

    For one dominating class the thresholds are 0.5, 0.7 and 0.9; for more, 0.2, 0.4 and 0.6 of the
    largest possible share ``1 / i``. A finer grid would hardly be better and would leak more:
    neighbouring candidates would differ only by the few clients between them.

    Raises `SettingsError` if there would be more than 64 candidates.

    >>> grid = candidate_grid(Codebook((1, 2, 10)))
    >>> len(grid), grid[0], {1: 0.7, 2: 0.1} in grid
    (9, {1: 0.5, 2: 0.1}, True)
    """
    sizes = codebook.reference_set[:-1]
    if (num_candidates := 3 ** len(sizes)) > _MAX_CANDIDATES:
        raise SettingsError(
            f"A search over the sizes of reference_set={codebook.reference_set} has "
            f"{num_candidates} candidates, above {_MAX_CANDIDATES}; leave out a size or pass "
            "thresholds."
        )
    shares = ((0.5, 0.7, 0.9) if i == 1 else tuple(k / (10 * i) for k in (2, 4, 6)) for i in sizes)
    return [dict(zip(sizes, candidate, strict=True)) for candidate in product(*shares)]


def search_contribution(distribution: ArrayLike, probabilities: ArrayLike) -> NDArray[np.int64]:
    """Return what a client adds to the sums of each candidate: ``P_k p_l^k`` and ``P_k``.

    Takes the client's ``p_l`` in fixed point, shape (C,), and its probability under each of n
    candidates. The result, shape (n, C + 1), is rounded to units of ``1 / FIXED_POINT_SCALE``.

    >>> search_contribution([FIXED_POINT_SCALE, 0], [0.375, 0.125]) / FIXED_POINT_SCALE
    array([[0.375, 0.   , 0.375],
           [0.125, 0.   , 0.125]])
    """
    columns = np.append(np.asarray(distribution, dtype=np.int64), FIXED_POINT_SCALE)
    return np.asarray(np.rint(np.asarray(probabilities)[:, None] * columns), dtype=np.int64)


def best_candidate(sums: ArrayLike) -> int:
    """Return the candidate with the smallest ``||E[p_o] - p_u||_1``; ties go to the first.

    The sums of all clients' contributions have shape (n, C + 1). The last column, the expected
    number of participants under each candidate, must be above 0.

    >>> best_candidate([[30, 10, 40], [11, 10, 21], [5, 5, 10]])
    2
    """
    rows = np.asarray(sums, dtype=np.int64).tolist()
    distances = [
        sum(abs(Fraction(share, expected) - Fraction(1, len(shares))) for share in shares)
        for *shares, expected in rows
    ]
    return distances.index(min(distances))
