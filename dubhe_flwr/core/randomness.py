"""Counter-based random numbers: a generator for each purpose, whatever the order of arrival.

A generator is fixed by a seed and a path of names and numbers, such as ``("participation",
alias, round)``. Two nodes, rounds or purposes therefore never share or shift each other's
random numbers, and a run repeats on every runtime. Keys and obfuscation never come from here.
"""

import hashlib
import json

import numpy as np

__all__ = ["generator"]


def generator(seed: int, *path: str | int, skip: int = 0) -> np.random.Generator:
    """Return the generator that belongs to a seed and a path.

    Parameters
    ----------
    seed : int
        The seed of the whole run.
    *path : str or int
        What the numbers are for.
    skip : int (default: 0)
        Numbers in [0, 1) to leave out, a multiple of 4, at no cost.

    Returns
    -------
    numpy.random.Generator
        A Philox generator keyed by a SHA-256 of seed and path.

    Examples
    --------
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
