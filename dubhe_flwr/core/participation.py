"""Participation: the probability with which a client takes part (eq. 6), and its draws."""

import secrets
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.randomness import generator

__all__ = ["participation_probability", "private_draws", "seeded_draws"]

_TRIES_IN_BLOCK: Final = 32
"""Seeded tries come in blocks, each of them one stream of random numbers for all rounds."""


def participation_probability(
    overall_registry: ArrayLike, num_participants: int
) -> NDArray[np.float64]:
    """Return ``P = min(1, K / (R_A(u) * ||R_A||_0))`` for each category (eq. 6).

    Every non-empty category is then expected to send as many clients as any other, and K
    clients take part in all as long as no probability is capped at 1 (eqs. 7 and 8).

    Parameters
    ----------
    overall_registry : array_like of int, shape (l,)
        ``R_A``: the number of clients in each category.
    num_participants : int
        ``K``, the wanted number of clients in a round.

    Returns
    -------
    ndarray of float64, shape (l,)
        Probability of a client of that category; 0 where the category is empty.

    Examples
    --------
    >>> participation_probability([10, 0, 40], num_participants=4)
    array([0.2 , 0.  , 0.05])
    """
    counts = np.asarray(overall_registry, dtype=np.int64)
    filled = counts > 0
    probability = np.zeros(counts.shape)
    probability[filled] = num_participants / (counts[filled] * np.count_nonzero(filled))
    return np.minimum(1.0, probability)


def seeded_draws(
    seed: int, alias: str, first_round: int, num_rounds: int, tries: int
) -> NDArray[np.float64]:
    """Return a simulated client's uniform numbers in [0, 1), one for each round and try.

    They depend on the round and the try alone, however many of them are drawn at once.

    Whoever knows the seed can tell from a client's yes or no on which side of the number its
    probability lies; this is for simulations only.

    Parameters
    ----------
    seed : int
        The seed of the run, known to the server.
    alias : str
        Name of the client that stays the same from run to run.
    first_round, num_rounds : int
        The rounds for which to draw.
    tries : int
        ``H``.

    Returns
    -------
    ndarray of float64, shape (T, H)

    Examples
    --------
    >>> block = seeded_draws(7, "3", first_round=1, num_rounds=2, tries=4)
    >>> bool((block[1] == seeded_draws(7, "3", first_round=2, num_rounds=1, tries=4)).all())
    True
    """
    blocks = [
        generator(seed, "participation", alias, block, skip=first_round * _TRIES_IN_BLOCK).random(
            (num_rounds, _TRIES_IN_BLOCK)
        )
        for block in range(-(-tries // _TRIES_IN_BLOCK))
    ]
    return np.hstack(blocks)[:, :tries]


def private_draws(tries: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) from the operating system, one for each try.

    Examples
    --------
    >>> private_draws(3).shape
    (3,)
    """
    integers = np.frombuffer(secrets.token_bytes(8 * tries), dtype=np.uint64)
    return np.asarray((integers >> np.uint64(11)) * 2.0**-53)
