"""Determination: the H tries of a round (section 5.3), or its small random groups.

With tries, the agent compares H encrypted sums and picks one of H sets of clients. With groups, it
compares M sums and picks q groups together: a choice among ``comb(M, q)`` sets, and each client
enters only one sum.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Clients = NDArray[np.int64]
Mask = NDArray[np.bool_]


def fill_or_trim(
    volunteers: Mask, eligible: Mask, num_participants: int, rng: np.random.Generator
) -> Clients:
    """Bring the volunteers of one try to exactly K clients (section 5.2).

    Surplus volunteers are dropped, and missing ones are filled in from the other eligible clients,
    both uniformly at random. Volunteers that are not eligible are ignored. Both masks have shape
    (N,). The result holds client indices in ascending order, fewer than K only if fewer are
    eligible.

    >>> yes, all_of_them = np.array([0, 1, 0, 1, 0], dtype=bool), np.ones(5, dtype=bool)
    >>> fill_or_trim(yes, all_of_them, 2, np.random.default_rng(0)).tolist()
    [1, 3]
    >>> fill_or_trim(yes, all_of_them, 3, np.random.default_rng(0)).size
    3
    """
    willing = np.flatnonzero(volunteers & eligible)
    if willing.size > num_participants:
        return np.sort(rng.choice(willing, num_participants, replace=False))
    rest = np.flatnonzero(eligible & ~volunteers)
    missing = min(num_participants - willing.size, rest.size)
    return np.sort(np.concatenate([willing, rng.choice(rest, missing, replace=False)]))


def far_apart(tries: Sequence[Clients], fewest: int) -> list[Clients]:
    """Replace each try that differs from an earlier one by fewer than `fewest` clients.

    Subtracting two such sums would reveal the sum over those few clients. The earlier try takes the
    place of the later one, so the result still has H tries.

    >>> [t.tolist() for t in far_apart([np.array([0, 1]), np.array([1, 2]), np.array([2, 3])], 3)]
    [[0, 1], [0, 1], [2, 3]]
    """
    apart: dict[frozenset[int], Clients] = {}
    found = []
    for chosen in tries:
        clients = frozenset(chosen.tolist())
        near = (earlier for earlier in apart if len(clients ^ earlier) < fewest)
        found.append(apart.setdefault(next(near, clients), chosen))
    return found


def group_sizes(num_participants: int, group_size: int) -> NDArray[np.int64]:
    """Return the sizes of the ``q = K // g`` groups of at least g clients that make up K.

    Each group has ``K // q`` clients, and ``K % q`` of the groups have one more. The sizes are in
    ascending order; g lies between 1 and K.

    >>> group_sizes(20, 3).tolist()
    [3, 3, 3, 3, 4, 4]
    """
    num_wanted = num_participants // group_size
    size, larger = divmod(num_participants, num_wanted)
    return size + (np.arange(num_wanted) >= num_wanted - larger).astype(np.int64)


def cut_into_groups(
    pool: Clients, num_participants: int, group_size: int, max_groups: int, rng: np.random.Generator
) -> list[Clients]:
    """Cut a pool into disjoint random groups of the sizes that make up K clients.

    If groups of two sizes are needed, they are formed in the proportion in which they are needed.
    Leftover clients take no part in the round. The pool holds the indices of at least K clients,
    and `max_groups` is at least ``K // g``.

    >>> groups = cut_into_groups(np.arange(30), 11, 5, 9, np.random.default_rng(0))
    >>> sorted(len(group) for group in groups)
    [5, 5, 5, 6, 6]
    """
    sizes = np.resize(group_sizes(num_participants, group_size), max_groups)
    ends = np.cumsum(sizes)
    ends = ends[ends <= pool.size]
    return [np.sort(group) for group in np.split(rng.permutation(pool)[: ends[-1]], ends[:-1])]
