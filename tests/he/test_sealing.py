"""Tests of the sealed delivery of the secret key."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core import generator
from dubhe_flwr.errors import MalformedMessageError, SealError, SettingsError
from dubhe_flwr.he import (
    PublicKey,
    RecipientKey,
    SealingContext,
    SecretKey,
    open_sealed,
    seal,
    sealed_bytes,
)
from dubhe_flwr.he.sealing import SUITE


@pytest.fixture(scope="module")
def recipient_key() -> RecipientKey:
    """Return the key of a client."""
    return RecipientKey.generate()


@pytest.fixture(scope="module")
def context(full_size_key: SecretKey) -> SealingContext:
    """Return the context of an epoch."""
    return SealingContext(
        protocol="dubhe/1",
        epoch_id=bytes(range(16)),
        agent_public=RecipientKey.generate().public_bytes,
        layout_digest=b"L" * 32,
    )


@pytest.fixture(scope="module")
def sealed(full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext) -> bytes:
    """Return a sealed key."""
    return seal(full_size_key, recipient_key.public_bytes, context)


def test_sealed_key_opens(
    sealed: bytes, full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """The recipient gets the very key, even after a restart from stored bytes."""
    again = RecipientKey.from_bytes(recipient_key.to_bytes())
    assert again.public_bytes == recipient_key.public_bytes
    opened = open_sealed(sealed, again, context, full_size_key.public_key)
    assert opened.to_bytes() == full_size_key.to_bytes()
    assert opened.decrypt(full_size_key.encrypt([2**1000])) == [2**1000]


@pytest.mark.parametrize(("key_bits", "size"), [(512, 80), (2048, 176), (3072, 240)])
def test_size_is_fixed(key_bits: int, size: int) -> None:
    """A sealed key takes half a modulus and 48 bytes."""
    assert sealed_bytes(key_bits) == size


@pytest.mark.parametrize("key_bits", [0, 496, 2056])
def test_no_key_of_an_unfit_size_has_a_size(key_bits: int) -> None:
    """A seal of a key that cannot be is not waited for."""
    with pytest.raises(SettingsError, match=f"key_bits={key_bits}"):
        sealed_bytes(key_bits)


def test_seals_are_of_the_fixed_size_and_never_alike(
    sealed: bytes, full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """Sealing twice gives different bytes, which hold no part of the prime."""
    again = seal(full_size_key, recipient_key.public_bytes, context)
    assert len(sealed) == len(again) == sealed_bytes(2048)
    assert sealed != again
    assert full_size_key.to_bytes()[:8] not in sealed


def changed_seals(sealed: bytes) -> Iterator[bytes]:
    """Yield the seal with each bit flipped, cut to each length, and with something added."""
    whole = int.from_bytes(sealed, "big")
    for bit in range(8 * len(sealed)):
        yield (whole ^ 1 << bit).to_bytes(len(sealed), "big")
    for length in range(len(sealed)):
        yield sealed[:length]
    yield sealed + b"\x00"
    yield b"\x00" + sealed
    for point in LOW_ORDER_POINTS:
        yield bytes.fromhex(point) + sealed[32:]


def test_changed_seals_are_refused(
    sealed: bytes, full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """Each of 1593 changed seals is refused without detail."""
    refused = 0
    for changed in changed_seals(sealed):
        with pytest.raises(SealError) as refusal:
            open_sealed(changed, recipient_key, context, full_size_key.public_key)
        assert refusal.value.args == ()
        assert refusal.value.__cause__ is None
        refused += 1
    assert refused == 1593


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": "dubhe/2"},
        {"epoch_id": bytes(16)},
        {"agent_public": bytes(32)},
        {"layout_digest": bytes(32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_seal_opens_in_no_other_context(
    sealed: bytes,
    full_size_key: SecretKey,
    recipient_key: RecipientKey,
    context: SealingContext,
    change: dict[str, Any],
) -> None:
    """A seal of another protocol, epoch, agent or layout is refused."""
    with pytest.raises(SealError):
        open_sealed(sealed, recipient_key, replace(context, **change), full_size_key.public_key)


def without_key(
    sealed: bytes, recipient: RecipientKey, context: SealingContext, key: SecretKey, number: int
) -> tuple[bytes, RecipientKey, SealingContext, PublicKey]:
    """Return what a recipient may hold, with one thing wrong; a fifth of the numbers each."""
    rng = generator(number, "wrong")
    public_key = key.public_key
    match number % 5:
        case 0:
            public_key = PublicKey(int.from_bytes(rng.bytes(256), "big") | 1 << 2047 | 1)
        case 1:
            context = replace(context, epoch_id=rng.bytes(16))
        case 2:
            context = replace(context, layout_digest=rng.bytes(32))
        case 3:
            recipient = RecipientKey.generate()
        case _:
            bit = int(rng.integers(8 * len(sealed)))
            flipped = int.from_bytes(sealed, "big") ^ 1 << bit
            sealed = flipped.to_bytes(len(sealed), "big")
    return sealed, recipient, context, public_key


def test_a_thousand_wrong_seals_are_refused(
    full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """Wrong key, epoch, layout, recipient or one flipped bit: 1000 fresh seals, 1000 refusals."""
    refused = 0
    for number in range(1000):
        sealed = seal(full_size_key, recipient_key.public_bytes, context)
        told = without_key(sealed, recipient_key, context, full_size_key, number)
        with pytest.raises(SealError) as refusal:
            open_sealed(*told)
        assert (refusal.value.args, refusal.value.__cause__) == ((), None)
        refused += 1
    assert refused == 1000


def seal_anything(
    content: bytes, recipient_key: RecipientKey, context: SealingContext, modulus_digest: bytes
) -> bytes:
    """Seal arbitrary bytes, as a faulty agent might."""
    recipient = X25519PublicKey.from_public_bytes(recipient_key.public_bytes)
    info = context.info(recipient_key.public_bytes, modulus_digest)
    return SUITE.encrypt(content, recipient, info=info)


def test_well_sealed_rubbish_is_refused(
    full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """An intact seal is no key unless it holds a prime of the modulus."""
    public_key = full_size_key.public_key
    good, digest = full_size_key.to_bytes(), public_key.digest()
    sealed = seal_anything(good, recipient_key, context, digest)
    assert open_sealed(sealed, recipient_key, context, public_key)
    one = (1).to_bytes(128, "big")
    for content in (b"", bytes(128), one, good[:-1], b"\x00" + good, public_key.to_bytes()):
        rubbish = seal_anything(content, recipient_key, context, digest)
        with pytest.raises(SealError):
            open_sealed(rubbish, recipient_key, context, public_key)


def test_seal_in_the_name_of_another_modulus_is_refused(
    full_size_key: SecretKey, recipient_key: RecipientKey, context: SealingContext
) -> None:
    """A seal has to name the very modulus, even if seal and key are intact."""
    sealed = seal_anything(full_size_key.to_bytes(), recipient_key, context, bytes(32))
    with pytest.raises(SealError):
        open_sealed(sealed, recipient_key, context, full_size_key.public_key)


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
def test_unusable_public_bytes_are_refused(
    full_size_key: SecretKey, context: SealingContext, public: str
) -> None:
    """Nothing is sealed to bytes of a wrong length or to a point of small order."""
    with pytest.raises(MalformedMessageError):
        seal(full_size_key, bytes.fromhex(public), context)


parts = st.binary(max_size=3)
contexts = st.builds(SealingContext, st.text(max_size=3), parts, parts, parts)
others = st.tuples(parts, parts)


@given(one=contexts, other=contexts, told=others, another=others)
def test_info_is_unambiguous(
    one: SealingContext,
    other: SealingContext,
    told: tuple[bytes, bytes],
    another: tuple[bytes, bytes],
) -> None:
    """Two contexts have the same info only if all their parts are the same."""
    same = (astuple(one), told) == (astuple(other), another)
    assert (one.info(*told) == other.info(*another)) is same


def test_info_is_as_specified() -> None:
    """Six parts in a fixed order, each behind its length in four big-endian bytes."""
    context = SealingContext("tag", b"epoch", b"agent", b"")
    assert context.info(b"recipient", b"modulus") == (
        b"\0\0\0\x03tag\0\0\0\x05epoch\0\0\0\x05agent\0\0\0\x09recipient\0\0\0\x07modulus\0\0\0\0"
    )


@pytest.mark.parametrize("size", [0, 31, 33])
def test_stored_key_of_wrong_size_is_refused(size: int) -> None:
    """A recipient key is 32 bytes."""
    with pytest.raises(SealError) as refusal:
        RecipientKey.from_bytes(bytes(size))
    assert refusal.value.args == ()


def test_recipient_key_is_hidden(recipient_key: RecipientKey) -> None:
    """What is printed shows the public half only."""
    assert recipient_key.to_bytes().hex()[:8] not in repr(recipient_key)
    public = recipient_key.public_bytes.hex()[:8]
    assert repr(recipient_key) == f"RecipientKey(<hidden>, public={public})"


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, vars])
def test_recipient_key_is_never_copied_out(
    recipient_key: RecipientKey, copied: Callable[[Any], object]
) -> None:
    """Neither pickle, copy, JSON nor vars gets at a recipient key."""
    with pytest.raises(TypeError):
        copied(recipient_key)
