"""Tests of pinned keys: a signature counts only if a trusted key made it over this statement."""

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.errors import SettingsError, UntrustedError
from dubhe_flwr.he.signing import PinnedKeys, TrustedKeys

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(4)]
TRUSTED = [key.public_key() for key in KEYS[:3]]
STRANGER = KEYS[3]
OTHER_KIND: Any = generate_private_key(SECP256R1())


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
        TrustedKeys(TRUSTED).rank(b"statement", signature)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: TrustedKeys([]), "empty"),
        (lambda: TrustedKeys(TRUSTED[0]), "trusted_keys is a .*load_trusted_keys"),  # type: ignore[arg-type]
        (lambda: TrustedKeys("keys.txt"), "trusted_keys is a str; .*load_trusted_keys"),  # type: ignore[arg-type]
        (lambda: TrustedKeys(b"key"), "trusted_keys is a bytes; .*load_trusted_keys"),  # type: ignore[arg-type]
        (lambda: TrustedKeys([*TRUSTED, TRUSTED[0]]), "twice"),
        (lambda: TrustedKeys([KEYS[0]]), "not a public Ed25519 key"),  # type: ignore[list-item]
        (lambda: TrustedKeys([OTHER_KIND.public_key()]), "not a public Ed25519 key"),
        (lambda: PinnedKeys(STRANGER, TRUSTED), "not among trusted_keys"),
        (lambda: PinnedKeys(KEYS[0].public_key(), TRUSTED), "not a private Ed25519 key"),  # type: ignore[arg-type]
        (lambda: PinnedKeys(OTHER_KIND, TRUSTED), "not a private Ed25519 key"),
    ],
)
def test_keys_that_cannot_work_are_refused(make: Callable[[], object], match: str) -> None:
    """No keys, a repeated key, other kinds of keys, and an own key that is not trusted."""
    with pytest.raises(SettingsError, match=match):
        make()
