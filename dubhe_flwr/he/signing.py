"""Ed25519 signatures by pinned keys: nodes get each other's public keys out of band.

A signature travels with the public half of its key, so that a verifier need not try all keys.
Together the two take `SIGNATURE_BYTES` bytes.
"""

import hmac
from collections.abc import Iterable
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dubhe_flwr.errors import SettingsError, UntrustedError
from dubhe_flwr.he.hidden import Hidden

SIGNER_BYTES: Final = 32
SIGNATURE_BYTES: Final = SIGNER_BYTES + 64


class TrustedKeys:
    """The public keys whose signatures count, one per node.

    Only nodes whose keys come first in the list may be members of a committee.

    Raises
    ------
    SettingsError
        If there are no keys, a key occurs twice, or one of them is not a public Ed25519 key.
    """

    __slots__ = ("_ranks",)

    def __init__(self, public_keys: Iterable[Ed25519PublicKey]) -> None:
        if not isinstance(public_keys, Iterable) or isinstance(public_keys, str | bytes):
            raise SettingsError(
                f"trusted_keys is a {type(public_keys).__name__}; read the keys from a file with "
                "load_trusted_keys."
            )
        keys = list(public_keys)
        if not keys:
            raise SettingsError("trusted_keys is empty; pass the public keys of all nodes.")
        if not all(isinstance(key, Ed25519PublicKey) for key in keys):
            raise SettingsError(
                "trusted_keys holds something that is not a public Ed25519 key; read them from a "
                "file with load_trusted_keys."
            )
        self._ranks = {key.public_bytes_raw(): rank for rank, key in enumerate(keys)}
        if len(self._ranks) < len(keys):
            raise SettingsError("A key occurs twice in trusted_keys; give each node its own.")

    def __contains__(self, public_key: Ed25519PublicKey) -> bool:
        return public_key.public_bytes_raw() in self._ranks

    def rank(self, statement: bytes, signature: bytes | None) -> int:
        """Return the position, from 0, of the trusted key that signed a statement.

        Raises `UntrustedError` if none did.
        """
        if signature is None or len(signature) != SIGNATURE_BYTES:
            raise UntrustedError("The signature is missing or has the wrong length.")
        signer = signature[:SIGNER_BYTES]
        if signer not in self._ranks:
            raise UntrustedError("The signature is by a key that is not trusted.")
        try:
            Ed25519PublicKey.from_public_bytes(signer).verify(signature[SIGNER_BYTES:], statement)
        except InvalidSignature:
            raise UntrustedError("The signature belongs to another statement.") from None
        return self._ranks[signer]


class PinnedKeys(Hidden):
    """A node's own signing key, and the public keys of all nodes that it trusts.

    Parameters
    ----------
    signing_key : Ed25519PrivateKey
        The node's own key.
    trusted_keys : iterable of Ed25519PublicKey or TrustedKeys
        The public keys of all nodes, including this one.

    Raises
    ------
    SettingsError
        If a key has the wrong type, or this node's public key is not among the trusted ones.

    Examples
    --------
    >>> own = Ed25519PrivateKey.generate()
    >>> keys = PinnedKeys(own, [own.public_key()])
    >>> keys.trusted.rank(b"hello", keys.sign(b"hello"))
    0
    """

    __slots__ = ("_signing_key", "trusted")

    def __init__(
        self, signing_key: Ed25519PrivateKey, trusted_keys: Iterable[Ed25519PublicKey] | TrustedKeys
    ) -> None:
        if not isinstance(signing_key, Ed25519PrivateKey):
            raise SettingsError(
                "signing_key is not a private Ed25519 key; read it from a file with "
                "load_signing_key."
            )
        self.trusted = (
            trusted_keys if isinstance(trusted_keys, TrustedKeys) else TrustedKeys(trusted_keys)
        )
        if signing_key.public_key() not in self.trusted:
            raise SettingsError(
                "The public half of signing_key is not among trusted_keys; add it and give all "
                "nodes the same keys."
            )
        self._signing_key = signing_key

    @property
    def signer(self) -> bytes:
        """The public half of the node's own key."""
        return self._signing_key.public_key().public_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        """Return the public half of the node's key and its signature, `SIGNATURE_BYTES` bytes."""
        return self.signer + self._signing_key.sign(statement)

    def secret(self, purpose: bytes) -> bytes:
        """Return 32 bytes for a purpose that stay the same, and that only the node can compute."""
        return hmac.digest(self._signing_key.private_bytes_raw(), purpose, "sha256")
