"""Grouped determination: small random groups of volunteers, of which some are chosen together.

The best of H tries is one of H sets. Cut into M groups, as many encrypted sums leave the agent a
choice among ``comb(M, q)`` sets, and no client is in more than one sum.
"""

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.determination import fill_or_trim
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError

__all__ = [
    "cut_into_groups",
    "expected_volunteers",
    "group_sizes",
    "groups_of_round",
    "self_selected_pool",
]


def group_sizes(num_participants: int, group_size: int) -> NDArray[np.int64]:
    """Return the sizes of the ``q = K // g`` groups that make up exactly K clients.

    Parameters
    ----------
    num_participants : int
        ``K``.
    group_size : int
        ``g``: fewest clients in a group, at most K.

    Returns
    -------
    ndarray of int64, shape (q,)
        ``K // q`` each, and one more in ``K % q`` of them; ascending.

    Raises
    ------
    SettingsError
        If `group_size` is below 1 or above `num_participants`.

    Examples
    --------
    >>> group_sizes(20, 4).tolist()
    [4, 4, 4, 4, 4]
    >>> group_sizes(20, 3).tolist()
    [3, 3, 3, 3, 4, 4]
    """
    if not 1 <= group_size <= num_participants:
        raise SettingsError(
            f"group_size={group_size} must be from 1 to num_participants={num_participants}."
        )
    num_wanted = num_participants // group_size
    size, larger = divmod(num_participants, num_wanted)
    return size + (np.arange(num_wanted) >= num_wanted - larger).astype(np.int64)


def expected_volunteers(num_participants: int, tries: int, num_clients: int) -> int:
    """Return how many clients should volunteer, in a single draw, for groups to be cut from them.

    As many as in H tries, where each client is summed once instead of H times. A single draw with
    probabilities for so many volunteers keeps the proportion of the categories; a pool of those
    who say yes in any of H tries would contain nearly all clients of a high probability and H
    times as many of a low one. More than half of all clients would leave no room for balance.

    Parameters
    ----------
    num_participants : int
        ``K``.
    tries : int
        ``H``: tries whose volunteers there shall be.
    num_clients : int
        ``N``.

    Returns
    -------
    int
        Between K and the larger of K and N / 2.

    Examples
    --------
    >>> expected_volunteers(20, 20, 1000), expected_volunteers(100, 20, 1000)
    (400, 500)
    """
    return max(num_participants, min(tries * num_participants, num_clients // 2))


def self_selected_pool(
    decisions: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
    num_participants: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the eligible clients that drew a yes in any try, filled up to K where they are few.

    Parameters
    ----------
    decisions : ndarray of bool, shape (N, H)
        The clients' own draws.
    eligible : ndarray of bool, shape (N,)
        Which clients may be chosen at all; the yes of another one does not count.
    num_participants : int
        ``K``.
    rng : numpy.random.Generator
        Draws who fills up, uniformly.

    Returns
    -------
    ndarray of int64, shape (at least K,)
        Indices of clients, ascending; fewer than K if fewer are eligible.

    Examples
    --------
    >>> decisions = np.array([[1, 0], [0, 0], [1, 1], [0, 1], [0, 1]], dtype=bool)
    >>> eligible = np.array([1, 1, 1, 1, 0], dtype=bool)
    >>> self_selected_pool(decisions, eligible, 2, np.random.default_rng(0)).tolist()
    [0, 2, 3]
    """
    volunteers = decisions.any(axis=1) & eligible
    return fill_or_trim(volunteers, eligible, max(num_participants, int(volunteers.sum())), rng)


def cut_into_groups(
    pool: NDArray[np.int64],
    num_participants: int,
    group_size: int,
    max_groups: int,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Cut a pool into disjoint random groups of the sizes that make up K clients.

    Where groups of two sizes are needed, both are formed as often as they are needed in
    proportion. The clients that are left over take no part in the round.

    Parameters
    ----------
    pool : ndarray of int64, shape (n,)
        Indices of clients, at least K.
    num_participants : int
        ``K``.
    group_size : int
        ``g``: fewest clients in a group.
    max_groups : int
        Most sums that the agent may be asked to decrypt; at least ``K // g`` groups are formed.
    rng : numpy.random.Generator
        Randomness of the server for this round.

    Returns
    -------
    list of ndarray of int64
        Indices of the clients of each group, ascending.

    Raises
    ------
    SettingsError
        If the pool is too small, or `max_groups` or `group_size` are out of range.

    Examples
    --------
    >>> groups = cut_into_groups(np.arange(30), 11, 5, 9, np.random.default_rng(0))
    >>> sorted(len(group) for group in groups)
    [5, 5, 5, 6, 6]
    """
    wanted = group_sizes(num_participants, group_size)
    if pool.size < num_participants:
        raise SettingsError(
            f"A pool of {pool.size} clients cannot make up num_participants={num_participants}."
        )
    if max_groups < wanted.size:
        raise SettingsError(
            f"max_groups={max_groups} is below the {wanted.size} groups of group_size={group_size} "
            f"that make up num_participants={num_participants}; raise one of the two."
        )
    sizes = np.resize(wanted, max_groups)  # the wanted ones over and over
    ends = np.cumsum(sizes)
    ends = ends[ends <= pool.size]
    return [np.sort(group) for group in np.split(rng.permutation(pool)[: ends[-1]], ends[:-1])]


def groups_of_round(
    decisions: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
    num_participants: int,
    group_size: int,
    *,
    max_groups: int,
    seed: int,
    server_round: int,
) -> list[NDArray[np.int64]]:
    """Return the groups of a round's volunteers; the first ones make up a random choice of K.

    Parameters
    ----------
    decisions : ndarray of bool, shape (N, H)
        The clients' own draws.
    eligible : ndarray of bool, shape (N,)
        Which clients may be chosen in this round; at least K.
    num_participants : int
        ``K``.
    group_size : int
        ``g``: fewest clients in a group.
    max_groups : int
        Most sums that the agent may be asked to decrypt.
    seed : int
        The server's seed.
    server_round : int
        The round that is determined.

    Returns
    -------
    list of ndarray of int64
        Indices of the clients of each group, ascending.

    Examples
    --------
    >>> everyone = np.ones(8, dtype=bool)
    >>> [len(g) for g in groups_of_round(everyone[:, None], everyone, 4, 2, max_groups=3,
    ...                                      seed=7, server_round=1)]
    [2, 2, 2]
    """
    pool = self_selected_pool(
        decisions, eligible, num_participants, generator(seed, "pool", server_round)
    )
    rng = generator(seed, "groups", server_round)
    return cut_into_groups(pool, num_participants, group_size, max_groups, rng)
