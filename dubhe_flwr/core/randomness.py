"""Counter-based random numbers: a generator for each purpose, whatever the order of arrival.

A generator is fixed by a seed and a path of names and numbers, such as ``("participation",
alias, round)``, or by the key that follows from them and tells nothing of the seed. Two nodes,
rounds or purposes therefore never share or shift each other's random numbers, and a run repeats on
every runtime. Keys and obfuscation never come from here.
"""

import hashlib
import json
import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES: Final = 16
_TRIES_OF_A_KEY: Final = 32


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator of a seed and a path, which says what the numbers are for.

    >>> first = generator(7, "participation", "client-3", 1).random()
    >>> first == generator(7, "participation", "client-3", 1).random()
    True
    >>> first == generator(7, "participation", "client-3", 2).random()
    False
    """
    return generator_of(_key(seed, *path))


def draw_keys_of(seed: int, alias: str, sequence: int, exchange: int, tries: int = 0) -> bytes:
    """Return what a simulated client is given in the place of the seed: draw keys, end to end.

    The first one fixes the random numbers of its rule in an exchange of the epoch with that number,
    each other one those of 32 tries, in any round. `alias` stays the same from run to run.
    """
    blocks = range(-(-tries // _TRIES_OF_A_KEY))
    of_draws = (_key(seed, "participation", alias, block) for block in blocks)
    return b"".join([_key(seed, "rounding", alias, sequence, exchange), *of_draws])


def draw_keys_bytes(tries: int = 0) -> int:
    """Return the length of a client's draw keys."""
    return _KEY_BYTES * (1 + -(-tries // _TRIES_OF_A_KEY))


def generator_of(key: bytes, skip: int = 0) -> np.random.Generator:
    """Return the generator of a key, that of Philox; of several keys, of the first one.

    Of numbers in [0, 1) so many may be left out at no cost, a multiple of 4.

    >>> bool(generator_of(bytes(16)).random(9)[8] == generator_of(bytes(16), skip=8).random())
    True
    """
    number = int.from_bytes(key[:_KEY_BYTES], "big")
    return np.random.Generator(np.random.Philox(key=number, counter=skip // 4))


def keyed_draws(keys: bytes, first_round: int, num_rounds: int, tries: int) -> NDArray[np.float64]:
    """Return a simulated client's uniform numbers in [0, 1), shape (T, H), by round and try.

    They depend on the round and the try alone, however many of them are drawn at once. Whoever
    knows the keys can tell from a yes or no on which side of the number a probability lies.

    >>> keys = draw_keys_of(7, "3", sequence=1, exchange=1, tries=4)
    >>> both = keyed_draws(keys, first_round=1, num_rounds=2, tries=4)
    >>> bool((both[1] == keyed_draws(keys, first_round=2, num_rounds=1, tries=4)).all())
    True
    """
    shape, skip = (num_rounds, _TRIES_OF_A_KEY), first_round * _TRIES_OF_A_KEY
    starts = range(_KEY_BYTES, len(keys), _KEY_BYTES)  # the first key is that of the rule
    blocks = [generator_of(keys[start:], skip).random(shape) for start in starts]
    return np.concatenate(blocks, axis=1)[:, :tries]


def private_draws(tries: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) from the operating system, one for each try.

    >>> private_draws(3).shape
    (3,)
    """
    integers = np.frombuffer(secrets.token_bytes(8 * tries), dtype=np.uint64)
    return np.asarray((integers >> np.uint64(11)) * 2.0**-53)


def _key(seed: int, *path: str | int) -> bytes:
    return hashlib.sha256(json.dumps([seed, *path]).encode()).digest()[:_KEY_BYTES]
