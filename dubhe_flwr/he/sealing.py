"""Seals the secret key, so that the agent can send it to every other client through the server.

Uses HPKE (RFC 9180) in base mode: X25519, HKDF-SHA-256, AES-256-GCM. Single-shot encryption takes
no associated data, so everything that a delivery must be bound to goes into `info`.
"""

from dataclasses import dataclass
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from dubhe_flwr.errors import MalformedMessageError, SealError
from dubhe_flwr.he.hidden import Hidden
from dubhe_flwr.he.public_key import PublicKey, check_key_bits
from dubhe_flwr.he.secret_key import SecretKey

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


@dataclass(frozen=True, slots=True)
class SealingContext:
    """What a sealed key is bound to: it opens in no other context."""

    protocol: str  # tag of protocol and version
    epoch_id: bytes
    agent_public: bytes  # public half of the agent's own recipient key
    layout_digest: bytes  # `Layout.digest()` of the epoch

    def info(self, recipient_public: bytes, modulus_digest: bytes) -> bytes:
        """Return the context for one recipient and modulus, each part preceded by its length."""
        own = self.protocol.encode(), self.epoch_id, self.agent_public
        return prefixed(*own, recipient_public, modulus_digest, self.layout_digest)


def prefixed(*parts: bytes) -> bytes:
    """Join parts, each preceded by its length, so that different parts give different bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def sealed_bytes(key_bits: int) -> int:
    """Size in bytes of every sealed key."""
    check_key_bits(key_bits)
    return ENCAPSULATED_KEY_BYTES + key_bits // 16 + TAG_BYTES


def seal(secret_key: SecretKey, recipient_public: bytes, context: SealingContext) -> bytes:
    """Seal one prime of the secret key for one recipient, who derives the other prime from n.

    The recipient's public key has 32 bytes, and the result has `sealed_bytes(key_bits)`. Raises
    `MalformedMessageError` if `recipient_public` is not a public key, or is one of the few with
    which anybody could compute the shared secret.

    >>> from dubhe_flwr.he.secret_key import generate_secret_key
    >>> secret_key, recipient_key = generate_secret_key(512), RecipientKey.generate()
    >>> context = SealingContext("dubhe/1", b"epoch", bytes(32), bytes(32))
    >>> sealed = seal(secret_key, recipient_key.public_bytes, context)
    >>> opened = open_sealed(sealed, recipient_key, context, secret_key.public_key)
    >>> opened.decrypt(secret_key.encrypt([42]))
    [42]
    """
    info = context.info(recipient_public, secret_key.public_key.digest())
    return seal_bytes(secret_key.to_bytes(), recipient_public, info)


def seal_bytes(secret: bytes, recipient_public: bytes, info: bytes) -> bytes:
    """Seal a secret for one recipient and purpose; `RecipientKey.decrypt` opens it.

    Raises `MalformedMessageError` if the recipient's public key is not usable.
    """
    try:
        recipient = X25519PublicKey.from_public_bytes(recipient_public)
        return SUITE.encrypt(secret, recipient, info=info)
    except ValueError:
        sentence = "A recipient's public key is not a usable X25519 key."
        raise MalformedMessageError(sentence) from None


def open_sealed(
    sealed: bytes, recipient_key: RecipientKey, context: SealingContext, public_key: PublicKey
) -> SecretKey:
    """Open a sealed key in the context that the recipient knows, and check it against the modulus.

    Raises `SealError`, without detail, if the key was sealed for another recipient, epoch, agent,
    modulus or layout, was changed on the way, or is not a prime of the modulus.
    """
    info = context.info(recipient_key.public_bytes, public_key.digest())
    return SecretKey.from_bytes(recipient_key.decrypt(sealed, info), public_key)
