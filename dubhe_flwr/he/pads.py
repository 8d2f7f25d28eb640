"""Additive pads: numbers modulo 2^61 - 1 that only two parties can compute.

The two parties agree on a key by X25519. From this key, AES-256 in counter mode makes a pad for
each name, so both have the same pad without sending it. All numbers are added modulo a prime, so
that a *tag*, the product of a vector with secret factors, reveals whether a sum was changed.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dubhe_flwr.errors import DecryptionError, MalformedMessageError
from dubhe_flwr.he.sealing import RecipientKey

PRIME: Final = 2**61 - 1
KEY_BYTES: Final = 32
NUMBER_BYTES: Final = 8

Residues = NDArray[np.uint64]

_MASK: Final = np.uint64(PRIME)
_LOW: Final = np.uint64(2**32 - 1)


def agreed_key(own: RecipientKey, other: bytes, info: bytes) -> bytes:
    """Return the key on which the owners of two X25519 keys agree for a purpose.

    Raises `MalformedMessageError` if the other party's public key is not usable.

    >>> one, other = RecipientKey.generate(), RecipientKey.generate()
    >>> key = agreed_key(one, other.public_bytes, b"a purpose")
    >>> key == agreed_key(other, one.public_bytes, b"a purpose")
    True
    """
    try:
        secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        sentence = "Another party's public key is not a usable X25519 key."
        raise MalformedMessageError(sentence) from None
    return derived_key(secret, info)


def derived_key(key: bytes, info: bytes) -> bytes:
    """Derive a key for one purpose from a key for many (HKDF-SHA-256)."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(key)


def pad(key: bytes, name: bytes, number: int) -> Residues:
    """Return the numbers that a key makes for a name, shape (number,).

    Each is the low 61 bits of eight little-endian bytes. The value 2^61 - 1 counts as 0, which
    makes 0 twice as likely as other numbers: a negligible bias.
    """
    start = hashlib.sha256(name).digest()[:16]
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(start)).encryptor()
    stream = encryptor.update(bytes(NUMBER_BYTES * number))
    return reduced(np.frombuffer(stream, dtype="<u8").astype(np.uint64) & _MASK)


def reduced(numbers: Residues) -> Residues:
    """Return numbers modulo the prime."""
    return np.asarray(numbers % _MASK)


def total(vectors: Sequence[Residues] | Residues) -> Residues:
    """Return the sum of at most 2^31 vectors modulo the prime."""
    stacked = np.asarray(vectors, dtype=np.uint64)
    high, low = (stacked >> np.uint64(32)).sum(axis=0), (stacked & _LOW).sum(axis=0)
    sums = [(int(h) << 32) + int(rest) for h, rest in zip(high, low, strict=True)]
    return np.array([each % PRIME for each in sums], dtype=np.uint64)


def difference(one: Residues, other: Residues) -> Residues:
    """Return the difference of two vectors modulo the prime."""
    return reduced(one + (_MASK - other))


def tagged(numbers: Iterable[int], factors: Residues) -> Residues:
    """Return a vector modulo the prime, followed by its tag: its product with secret factors.

    >>> factors = np.array([3, 5], dtype=np.uint64)
    >>> tagged([10, -2], factors).tolist() == [10, PRIME - 2, 20]
    True
    """
    values = [int(number) for number in numbers]
    tag = sum(value * int(factor) for value, factor in zip(values, factors, strict=True))
    return np.array([value % PRIME for value in [*values, tag]], dtype=np.uint64)


def untagged(vector: Residues, factors: Residues) -> NDArray[np.int64]:
    """Check the tag of a vector and return its numbers, from -2^60 to 2^60.

    Raises `DecryptionError`, without detail, if the tag does not belong to the numbers.
    """
    values = [int(number) for number in vector[:-1]]
    if not np.array_equal(tagged(values, factors), vector):
        raise DecryptionError
    half = PRIME // 2
    return np.array([v - PRIME if v > half else v for v in values], dtype=np.int64)


def written(vector: Residues) -> bytes:
    """Return a vector as bytes, eight per number, big-endian."""
    return vector.astype(">u8").tobytes()


def read(data: bytes, number: int) -> Residues:
    """Read a vector of `number` numbers that `written` wrote.

    Raises `DecryptionError` if the length is wrong or a number is not below the prime.
    """
    if len(data) != NUMBER_BYTES * number:
        raise DecryptionError
    vector = np.frombuffer(data, dtype=">u8").astype(np.uint64)
    if (vector >= _MASK).any():
        raise DecryptionError
    return vector
