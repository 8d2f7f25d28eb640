"""Counter-based random numbers: a generator for each purpose, whatever the order of arrival.

A generator is fixed by a seed and a path of names and numbers, such as ``("participation",
alias, round)``. Two nodes, rounds or purposes therefore never share or shift each other's
random numbers, and a run repeats on every runtime. Keys and obfuscation never come from here.
"""

import hashlib
import json
import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

_TRIES_IN_BLOCK: Final = 32
"""Seeded tries come in blocks, each of them one stream of random numbers for all rounds."""


def generator(seed: int, *path: str | int, skip: int = 0) -> np.random.Generator:
    """Return the generator of a seed and a path: Philox, keyed by their SHA-256.

    The path says what the numbers are for. Of numbers in [0, 1) so many may be left out at no cost,
    a multiple of 4.

    >>> first = generator(7, "participation", "client-3", 1).random()
    >>> first == generator(7, "participation", "client-3", 1).random()
    True
    >>> first == generator(7, "participation", "client-3", 2).random()
    False
    >>> bool(generator(7, "a").random(9)[8] == generator(7, "a", skip=8).random())
    True
    """
    digest = hashlib.sha256(json.dumps([seed, *path]).encode()).digest()
    key = int.from_bytes(digest[:16], "big")
    return np.random.Generator(np.random.Philox(key=key, counter=skip // 4))


def seeded_draws(
    seed: int, alias: str, first_round: int, num_rounds: int, tries: int
) -> NDArray[np.float64]:
    """Return a simulated client's uniform numbers in [0, 1), shape (T, H), by round and try.

    They depend on the round and the try alone, however many of them are drawn at once. `alias`
    is a name of the client that stays the same from run to run. For simulations only: whoever
    knows the seed can tell from a yes or no on which side of the number a probability lies.

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
    return np.concatenate(blocks, axis=1)[:, :tries]


def private_draws(tries: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) from the operating system, one for each try.

    >>> private_draws(3).shape
    (3,)
    """
    integers = np.frombuffer(secrets.token_bytes(8 * tries), dtype=np.uint64)
    return np.asarray((integers >> np.uint64(11)) * 2.0**-53)
