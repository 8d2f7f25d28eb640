"""Tests of the sealed delivery of the secret key; the vectors have the contexts of a seal."""

import pytest

from dubhe_flwr.errors import MalformedMessageError, SealError, SettingsError
from dubhe_flwr.he.sealing import (
    RecipientKey,
    SealingContext,
    open_sealed,
    seal,
    sealed_bytes,
)
from dubhe_flwr.he.secret_key import SecretKey

CONTEXT = SealingContext("dubhe/1", bytes(range(16)), bytes(32), b"L" * 32)
LOW_ORDER_POINTS = [  # RFC 7748, section 6.1, and other points of small order
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
]


def test_size_is_fixed() -> None:
    """A sealed key has 48 bytes more than half a modulus; a key of an unfit size has none."""
    assert [sealed_bytes(key_bits) for key_bits in (512, 2048, 3072)] == [80, 176, 240]
    with pytest.raises(SettingsError, match="key_bits=496"):
        sealed_bytes(496)


def test_a_sealed_key_opens_unless_it_was_changed(secret_key: SecretKey) -> None:
    """Sealing is randomised, and shows nothing of the prime; refusals have no detail."""
    recipient = RecipientKey.generate()
    sealed, other = (seal(secret_key, recipient.public_bytes, CONTEXT) for _ in range(2))
    assert len(sealed) == len(other) == sealed_bytes(512)
    assert sealed != other
    assert secret_key.to_bytes()[:8] not in sealed
    opened = open_sealed(sealed, recipient, CONTEXT, secret_key.public_key)
    assert opened.to_bytes() == secret_key.to_bytes()
    whole = int.from_bytes(sealed, "big")
    changed = [(whole ^ 1 << bit).to_bytes(80, "big") for bit in range(0, 640, 7)]
    changed += [sealed[:length] for length in (0, 31, 32, 48, 79)]
    changed += [sealed + b"\x00", b"\x00" + sealed]
    changed += [bytes.fromhex(point) + sealed[32:] for point in LOW_ORDER_POINTS]
    for each in changed:
        with pytest.raises(SealError) as refusal:
            open_sealed(each, recipient, CONTEXT, secret_key.public_key)
        assert (refusal.value.args, refusal.value.__cause__) == ((), None)


@pytest.mark.parametrize("public", ["", "02" * 31, "02" * 33, *LOW_ORDER_POINTS])
def test_unusable_public_bytes_are_refused(secret_key: SecretKey, public: str) -> None:
    """Nothing is sealed to a public key of the wrong length or to a point of small order."""
    with pytest.raises(MalformedMessageError):
        seal(secret_key, bytes.fromhex(public), CONTEXT)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_stored_key_of_wrong_size_is_refused(size: int) -> None:
    """A recipient key has 32 bytes."""
    with pytest.raises(SealError) as refusal:
        RecipientKey.from_bytes(bytes(size))
    assert refusal.value.args == ()
