"""Seals secrets, so that a node can send them to other nodes through the server.

Uses HPKE (RFC 9180) in base mode: X25519, HKDF-SHA-256, AES-256-GCM. Single-shot encryption takes
no associated data, so everything that a delivery must be bound to goes into `info`.
"""

import secrets
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from dubhe_flwr.errors import SealError
from dubhe_flwr.he.hidden import Hidden
from dubhe_flwr.he.public_key import check_key_bits

SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
ENCAPSULATED_KEY_BYTES: Final = 32
TAG_BYTES: Final = 16


class RecipientKey(Hidden):
    """The X25519 key with which a client opens messages that are sealed to it.

    Examples
    --------
    >>> recipient_key = RecipientKey.generate()
    >>> len(recipient_key.public_bytes)
    32
    """

    __slots__ = ("_private_key",)

    def __init__(self, private_key: X25519PrivateKey) -> None:
        self._private_key = private_key

    @classmethod
    def generate(cls) -> Self:
        """Draw a new key."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the 32 bytes of `to_bytes`; raises `SealError`, without detail, otherwise."""
        try:
            return cls(X25519PrivateKey.from_private_bytes(data))
        except ValueError:
            raise SealError from None

    def to_bytes(self) -> bytes:
        """Return the private half as 32 bytes, for the client's own state only."""
        return self._private_key.private_bytes_raw()

    @property
    def public_bytes(self) -> bytes:
        """The public half as 32 bytes."""
        return self._private_key.public_key().public_bytes_raw()

    def exchange(self, other: X25519PublicKey) -> bytes:
        """Return the secret that only the owners of the two keys can compute.

        Raises `ValueError` if the other key is degenerate: anybody could then compute the secret.
        """
        return self._private_key.exchange(other)

    def decrypt(self, sealed: bytes, info: bytes) -> bytes:
        """Open an HPKE message; raises `SealError`, without detail, if it does not open."""
        try:
            return SUITE.decrypt(sealed, self._private_key, info=info)
        except InvalidTag:
            raise SealError from None


def prefixed(*parts: bytes) -> bytes:
    """Join parts, each preceded by its length, so that different parts give different bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def sealed_bytes(key_bits: int) -> int:
    """Size in bytes of a sealed Paillier key, which is one of its primes."""
    check_key_bits(key_bits)
    return ENCAPSULATED_KEY_BYTES + key_bits // 16 + TAG_BYTES


def seal(secret: bytes, recipient_public: bytes, info: bytes) -> bytes:
    """Seal a secret for one recipient and purpose; `RecipientKey.decrypt` opens it.

    Without a usable X25519 key of the recipient, random bytes of the same size are returned, so
    that only this recipient drops out.

    >>> recipient = RecipientKey.generate()
    >>> recipient.decrypt(seal(b"a secret", recipient.public_bytes, b"a purpose"), b"a purpose")
    b'a secret'
    """
    try:
        recipient = X25519PublicKey.from_public_bytes(recipient_public)
        return SUITE.encrypt(secret, recipient, info=info)
    except ValueError:  # the wrong size, or one of the few with which anybody could open the secret
        return secrets.token_bytes(ENCAPSULATED_KEY_BYTES + len(secret) + TAG_BYTES)
