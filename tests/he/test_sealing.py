"""Tests of the sealed delivery of the secret key."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from dubhe_flwr.errors import MalformedMessageError, SealError, SettingsError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import (
    SUITE,
    RecipientKey,
    SealingContext,
    open_sealed,
    seal,
    sealed_bytes,
)
from dubhe_flwr.he.secret_key import SecretKey


@dataclass(frozen=True)
class Delivery:
    """A key, its recipient, the context, and the sealed key."""

    key: SecretKey
    recipient: RecipientKey
    context: SealingContext
    sealed: bytes

    def open(self, **changes: Any) -> SecretKey:
        """Open this sealed key, or another one, in its own context or another one."""
        context = replace(self.context, **changes.get("context", {}))
        sealed, recipient = changes.get("sealed", self.sealed), changes.get("recipient")
        public_key = changes.get("public_key", self.key.public_key)
        return open_sealed(sealed, recipient or self.recipient, context, public_key)

    def holding(self, content: bytes, digest: bytes | None = None) -> bytes:
        """Seal arbitrary bytes to the recipient, as a faulty agent might."""
        public = self.recipient.public_bytes
        info = self.context.info(public, digest or self.key.public_key.digest())
        return SUITE.encrypt(content, X25519PublicKey.from_public_bytes(public), info=info)


@pytest.fixture(scope="module")
def delivery(full_size_key: SecretKey) -> Delivery:
    """Return a sealed key of an epoch."""
    recipient, agent = RecipientKey.generate(), RecipientKey.generate().public_bytes
    context = SealingContext("dubhe/1", bytes(range(16)), agent, b"L" * 32)
    sealed = seal(full_size_key, recipient.public_bytes, context)
    return Delivery(full_size_key, recipient, context, sealed)


def test_sealed_key_opens(delivery: Delivery) -> None:
    """The recipient gets the same key, even after a restart from stored bytes."""
    again = RecipientKey.from_bytes(delivery.recipient.to_bytes())
    assert again.public_bytes == delivery.recipient.public_bytes
    opened = delivery.open(recipient=again)
    assert opened.to_bytes() == delivery.key.to_bytes()
    assert opened.decrypt(delivery.key.encrypt([2**1000])) == [2**1000]


def test_size_is_fixed() -> None:
    """A sealed key has 48 bytes more than half a modulus; a key of an unfit size has none."""
    assert [sealed_bytes(key_bits) for key_bits in (512, 2048, 3072)] == [80, 176, 240]
    for key_bits in (0, 496, 2056):
        with pytest.raises(SettingsError, match=f"key_bits={key_bits}"):
            sealed_bytes(key_bits)


def test_sealing_is_randomised(delivery: Delivery) -> None:
    """Sealing twice gives different bytes, of the fixed size and without any part of the prime."""
    again = seal(delivery.key, delivery.recipient.public_bytes, delivery.context)
    assert len(delivery.sealed) == len(again) == sealed_bytes(2048)
    assert delivery.sealed != again
    assert delivery.key.to_bytes()[:8] not in delivery.sealed


def changed_seals(sealed: bytes) -> Iterator[bytes]:
    """Yield the sealed key with each bit flipped, cut to each length, and extended."""
    whole = int.from_bytes(sealed, "big")
    for bit in range(8 * len(sealed)):
        yield (whole ^ 1 << bit).to_bytes(len(sealed), "big")
    for length in range(len(sealed)):
        yield sealed[:length]
    yield sealed + b"\x00"
    yield b"\x00" + sealed
    for point in LOW_ORDER_POINTS:
        yield bytes.fromhex(point) + sealed[32:]


def test_changed_sealed_keys_are_refused(delivery: Delivery) -> None:
    """Each of 1593 changed sealed keys is refused without detail."""
    refused = 0
    for changed in changed_seals(delivery.sealed):
        with pytest.raises(SealError) as refusal:
            delivery.open(sealed=changed)
        assert (refusal.value.args, refusal.value.__cause__) == ((), None)
        refused += 1
    assert refused == 1593


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": "dubhe/2"}, {"epoch_id": bytes(16)}, {"agent_public": bytes(32)},
        {"layout_digest": bytes(32)},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_sealed_key_opens_in_no_other_context(delivery: Delivery, change: dict[str, Any]) -> None:
    """A key sealed for another protocol, epoch, agent, layout, recipient or modulus is refused."""
    other, recipient = PublicKey(delivery.key.public_key.n + 2), RecipientKey.generate()
    for wrong in ({"context": change}, {"recipient": recipient}, {"public_key": other}):
        with pytest.raises(SealError):
            delivery.open(**wrong)


def test_sealed_garbage_is_refused(delivery: Delivery) -> None:
    """What opens is refused unless it is a prime of the modulus that it was sealed for."""
    good, one = delivery.key.to_bytes(), (1).to_bytes(128, "big")
    assert delivery.open(sealed=delivery.holding(good))
    modulus = delivery.key.public_key.to_bytes()
    garbage = (b"", bytes(128), one, good[:-1], b"\x00" + good, modulus)
    for sealed in (*map(delivery.holding, garbage), delivery.holding(good, bytes(32))):
        with pytest.raises(SealError):
            delivery.open(sealed=sealed)


LOW_ORDER_POINTS = [  # RFC 7748, section 6.1, and the points of small order of the curve
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("public", ["", "02" * 31, "02" * 33, *LOW_ORDER_POINTS])
def test_unusable_public_bytes_are_refused(delivery: Delivery, public: str) -> None:
    """Nothing is sealed to a public key of the wrong length or to a point of small order."""
    with pytest.raises(MalformedMessageError):
        seal(delivery.key, bytes.fromhex(public), delivery.context)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_stored_key_of_wrong_size_is_refused(size: int) -> None:
    """A recipient key has 32 bytes."""
    with pytest.raises(SealError) as refusal:
        RecipientKey.from_bytes(bytes(size))
    assert refusal.value.args == ()
