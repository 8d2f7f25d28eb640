"""Determination: exactly K clients in each of H tries (section 5.3)."""

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator

__all__ = ["fill_or_trim", "tries_of_round"]


def fill_or_trim(
    volunteers: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
    num_participants: int,
    rng: np.random.Generator,
    num_yes: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Bring the volunteers of one try to exactly K clients (section 5.2).

    Too many are cut uniformly at random. Too few are filled from the other eligible ones: in the
    paper uniformly; with `num_yes` as often as they said yes elsewhere, which is as often as their
    probability wants them.

    Parameters
    ----------
    volunteers : ndarray of bool, shape (N,)
        Which clients drew a yes.
    eligible : ndarray of bool, shape (N,)
        Which clients may be chosen at all; the yes of another one does not count.
    num_participants : int
        ``K``.
    rng : numpy.random.Generator
        Randomness of the server for this try.
    num_yes : ndarray of int64, shape (N,), optional (default: none)
        How often each client drew a yes in all tries of the round.

    Returns
    -------
    ndarray of int64, shape (K,)
        Indices of the chosen clients, ascending; all eligible ones if there are fewer than K.

    Examples
    --------
    >>> yes, all_of_them = np.array([0, 1, 0, 1, 0], dtype=bool), np.ones(5, dtype=bool)
    >>> fill_or_trim(yes, all_of_them, 2, np.random.default_rng(0)).tolist()
    [1, 3]
    >>> fill_or_trim(yes, all_of_them, 3, np.random.default_rng(0)).size
    3
    >>> num_yes = np.array([2, 1, 0, 1, 0])
    >>> fill_or_trim(yes, all_of_them, 3, np.random.default_rng(0), num_yes).tolist()
    [0, 1, 3]
    """
    willing = np.flatnonzero(volunteers & eligible)
    if willing.size > num_participants:
        return np.sort(rng.choice(willing, num_participants, replace=False))
    others = np.flatnonzero(eligible & ~volunteers)
    missing = min(num_participants - willing.size, others.size)
    called = others[:0]
    if num_yes is not None:
        lots = rng.permutation(np.repeat(others, num_yes[others]))
        first = np.unique(lots, return_index=True)[1]
        called = lots[np.sort(first)][:missing]
        others = np.setdiff1d(others, called)
    drafted = rng.choice(others, missing - called.size, replace=False)
    return np.sort(np.concatenate([willing, called, drafted]))


def tries_of_round(
    decisions: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
    num_participants: int,
    seed: int,
    server_round: int,
    *,
    draft_by_yes: bool = False,
) -> list[NDArray[np.int64]]:
    """Return the exactly K clients of each of the H tries of a round.

    Parameters
    ----------
    decisions : ndarray of bool, shape (N, H)
        The clients' own draws; clients are in an order that does not depend on arrival.
    eligible : ndarray of bool, shape (N,)
        Which clients may be chosen in this round.
    num_participants : int
        ``K``.
    seed : int
        The server's seed.
    server_round : int
        The round that is determined.
    draft_by_yes : bool (default: False)
        Whether a try with too few volunteers is filled first from those of the other tries.

    Returns
    -------
    list of ndarray of int64, H times shape (K,)

    Examples
    --------
    >>> decisions = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    >>> [t.tolist() for t in tries_of_round(decisions, np.ones(4, dtype=bool), 2, 7, 1)]
    [[0, 1], [2, 3]]
    """
    num_yes = decisions.sum(axis=1) if draft_by_yes else None
    return [
        fill_or_trim(
            decisions[:, attempt],
            eligible,
            num_participants,
            generator(seed, "fill-or-trim", server_round, attempt),
            num_yes,
        )
        for attempt in range(decisions.shape[1])
    ]
