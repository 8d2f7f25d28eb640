"""Tests of pinned keys: a signature counts only if a trusted key made it over this statement."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.errors import SettingsError, UntrustedError
from dubhe_flwr.he.signing import PinnedKeys, TrustedKeys

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(4)]
TRUSTED = [key.public_key() for key in KEYS[:3]]
STRANGER = KEYS[3]


def signed(statement: bytes = b"statement", key: Ed25519PrivateKey = KEYS[0]) -> bytes:
    """Return a signature by a key, trusted or not."""
    return PinnedKeys(key, [key.public_key()]).sign(statement)


@pytest.mark.parametrize(
    ("signature", "match"),
    [
        (None, "missing"),
        (signed() + b"\0", "missing"),
        (signed()[:-1], "missing"),
        (signed(key=STRANGER), "not trusted"),
        (signed(b"statements"), "another statement"),
        (signed()[:32] + signed(key=KEYS[1])[32:], "another statement"),
        (signed()[:32] + bytes(64), "another statement"),
    ],
)
def test_invalid_signature_is_refused(signature: bytes | None, match: str) -> None:
    """The error distinguishes missing, cut, untrusted and borrowed signatures."""
    with pytest.raises(UntrustedError, match=match):
        TrustedKeys(TRUSTED).signer(b"statement", signature)


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ([], "empty"),
        ([*TRUSTED, TRUSTED[0]], "twice"),
        ([KEYS[0]], "not a public Ed25519 key"),
        ([generate_private_key(SECP256R1()).public_key()], "not a public Ed25519 key"),
    ],
)
def test_trusted_keys_that_cannot_work_are_refused(keys: Any, match: str) -> None:
    """An empty list, a repeated key and other kinds of keys are refused."""
    with pytest.raises(SettingsError, match=match):
        TrustedKeys(keys)


@pytest.mark.parametrize(
    ("own", "match"),
    [
        (STRANGER, "not among trusted_keys"),
        (KEYS[0].public_key(), "not a private Ed25519 key"),
        (generate_private_key(SECP256R1()), "not a private Ed25519 key"),
    ],
)
def test_a_signing_key_that_cannot_work_is_refused(own: Any, match: str) -> None:
    """A key is refused if it is of another kind or missing from the trusted keys."""
    with pytest.raises(SettingsError, match=match):
        PinnedKeys(own, TRUSTED)
