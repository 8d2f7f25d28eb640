"""Additive pads: numbers modulo 2^61 - 1 that only two parties can compute.

The two parties agree on a key by X25519. From this key, SHAKE-256 makes a pad for each name, so
both have the same pad without sending it. All numbers are added modulo a prime, so that a *tag*,
the inner product of a vector with secret factors, reveals whether a sum was changed. With the same
key, each party can also prove a statement to the other, and to nobody else.
"""

import hashlib
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dubhe_flwr.errors import DecryptionError, MalformedMessageError
from dubhe_flwr.he.sealing import RecipientKey

PRIME: Final = 2**61 - 1
KEY_BYTES: Final = 32
NUMBER_BYTES: Final = 8
PROOF_BYTES: Final = 16

Residues = NDArray[np.uint64]

_MASK: Final = np.uint64(PRIME)
_FEW: Final = 8  # the sum of fewer vectors fits in 64 bits
_LOW_32: Final = np.uint64(2**32 - 1)
_LOW_29: Final = np.uint64(2**29 - 1)


def agreed_key(own: RecipientKey, other: bytes, info: bytes) -> bytes:
    """Return the key that the owners of two X25519 keys agree on for a purpose.

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


def pads(keys: Iterable[bytes], name: bytes, number: int) -> Residues:
    """Return the pad that each 32-byte key yields for a name, shape (keys, number).

    Each number is the low 61 bits of eight little-endian bytes. The value 2^61 - 1 counts as 0,
    which makes 0 twice as likely as other numbers: a negligible bias.
    """
    size = NUMBER_BYTES * number
    stream = b"".join([hashlib.shake_256(key + name).digest(size) for key in keys])
    words = np.frombuffer(stream, dtype="<u8").reshape(-1, number)
    return reduced(words & _MASK)


def pad(key: bytes, name: bytes, number: int) -> Residues:
    """Return the pad that one key yields for a name, shape (number,)."""
    return np.asarray(pads([key], name, number)[0])


def proof(key: bytes, statement: bytes) -> bytes:
    """Return the proof of a statement: whoever does not know the 32-byte key cannot compute it.

    SHAKE-256 of key and statement is a message authentication code, as KMAC is. A statement must
    not begin like the name of a pad.

    >>> proof(bytes(32), b"a statement").hex()
    '9ab55b5314ce83ddf20272725b9d3973'
    """
    return hashlib.shake_256(key + statement).digest(PROOF_BYTES)


def reduced(numbers: Residues) -> Residues:
    """Return numbers modulo the prime."""
    return np.asarray(numbers % _MASK)


def total(vectors: Sequence[Residues] | Residues) -> Residues:
    """Return the sum of at most 2^30 vectors modulo the prime."""
    stacked = np.asarray(vectors, dtype=np.uint64)
    if len(stacked) < _FEW:
        return reduced(stacked.sum(axis=0))
    high, low = (stacked >> np.uint64(32)).sum(axis=0), (stacked & _LOW_32).sum(axis=0)
    # 2^61 is 1 modulo the prime, so the upper bits of high * 2^32 move to the bottom.
    return reduced((high >> np.uint64(29)) + ((high & _LOW_29) << np.uint64(32)) + low)


def difference(one: Residues, other: Residues) -> Residues:
    """Return the difference of two vectors modulo the prime."""
    return reduced(one + (_MASK - other))


def tagged(numbers: Iterable[int], factors: Residues) -> Residues:
    """Return a vector modulo the prime, followed by its tag: its inner product with the factors.

    >>> factors = np.array([3, 5], dtype=np.uint64)
    >>> tagged([10, -2], factors).tolist() == [10, PRIME - 2, 20]
    True
    """
    values = [int(number) for number in numbers]
    tag = sum(map(mul, values, factors.tolist()))
    return np.array([value % PRIME for value in [*values, tag]], dtype=np.uint64)


def untagged(vector: Residues, factors: Residues) -> NDArray[np.int64]:
    """Check the tag of a vector and return its numbers, from -2^60 to 2^60.

    Raises `DecryptionError`, without detail, if the tag does not belong to the numbers.
    """
    *values, tag = vector.tolist()
    if sum(map(mul, values, factors.tolist())) % PRIME != tag:
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
