"""Counter-based random numbers, with a separate generator for each purpose.

A seed and a path of names and numbers, such as ``("keygen", round)``, fix each generator. Nodes,
rounds and purposes therefore never share or shift each other's random numbers, and a run draws the
same numbers on every runtime, in whatever order messages arrive. Keys and the randomness of
encryption do not come from here, but from the operating system.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_KEY_BYTES: Final = 16
_TRIES_OF_A_KEY: Final = 32
"""Number of tries of a round that draw their numbers from one key."""


_ItemT = TypeVar("_ItemT")


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator for a seed and a path; the path says what the numbers are for.

    >>> first = generator(7, "participation", "client-3", 1).random()
    >>> first == generator(7, "participation", "client-3", 1).random()
    True
    >>> first == generator(7, "participation", "client-3", 2).random()
    False
    """
    return _generator_of(_key(seed, *path))


def seed_of(seed: int, *path: str | int) -> int:
    """Return the seed of other generators, fixed by a seed and a path.

    >>> seed_of(7, "lasting", "client-3") == seed_of(7, "lasting", "client-4")
    False
    """
    return int.from_bytes(_key(seed, *path))


def shuffled(items: Sequence[_ItemT], seed: int, *path: str | int) -> list[_ItemT]:
    """Return the items in a random order, which the seed and the path fix.

    >>> shuffled("abcd", 7, "agents", 1) == shuffled("abcd", 7, "agents", 1)
    True
    """
    return [items[index] for index in generator(seed, *path).permutation(len(items))]


def simulated_draws(
    seed: int, alias: str, first_round: int, num_rounds: int, tries: int
) -> NDArray[np.float64]:
    """Return a simulated client's uniform numbers in [0, 1), shape (T, H), by round and try.

    Each number depends on seed, alias, round and try alone, however many are drawn at once. The
    alias stays the same from run to run.

    >>> both = simulated_draws(7, "3", first_round=1, num_rounds=2, tries=4)
    >>> bool((both[1] == simulated_draws(7, "3", first_round=2, num_rounds=1, tries=4)).all())
    True
    """
    shape, skip = (num_rounds, _TRIES_OF_A_KEY), first_round * _TRIES_OF_A_KEY
    keys = (_key(seed, "participation", alias, block) for block in range(-(-tries // shape[1])))
    blocks = [_generator_of(key, skip).random(shape) for key in keys]
    return np.concatenate(blocks, axis=1)[:, :tries]


def private_draws(tries: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) from the operating system, one for each try.

    >>> private_draws(3).shape
    (3,)
    """
    integers = np.frombuffer(secrets.token_bytes(8 * tries), dtype=np.uint64)
    return np.asarray((integers >> np.uint64(11)) * 2.0**-53)


def normal(radius: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard normal numbers, by the formula of Box and Muller.

    Both arguments are uniform in (0, 1] and of the same shape.
    """
    return np.asarray(np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle))


def gaussian(deviations: ArrayLike, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return rounded Gaussian noise.

    Parameters
    ----------
    deviations : array_like of float, shape (n,)
        Standard deviation of each number.
    uniform : ndarray of float, shape (2, n)
        Uniform numbers in (0, 1] from which the noise is made. The smallest possible number
        in the first row decides how far the noise reaches: 2^-53 gives 8.57 deviations.
    """
    return np.asarray(np.rint(normal(*uniform) * np.asarray(deviations)), dtype=np.int64)


def _generator_of(key: bytes, skip: int = 0) -> np.random.Generator:
    """Return the Philox generator of a key after skipping `skip` draws, a multiple of 4."""
    number = int.from_bytes(key, "big")
    return np.random.Generator(np.random.Philox(key=number, counter=skip // 4))


def _key(seed: int, *path: str | int) -> bytes:
    return hashlib.sha256(json.dumps([seed, *path]).encode()).digest()[:_KEY_BYTES]
