"""Tests of sealed delivery; the vectors have what a sealed key is bound to."""

import pytest

from dubhe_flwr.errors import SealError
from dubhe_flwr.he.sealing import RecipientKey, seal, sealed_bytes

SECRET, INFO = bytes(range(32)), b"a purpose"
LOW_ORDER_POINTS = [  # RFC 7748, section 6.1, and other points of small order
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
]


def test_a_secret_opens_unless_it_was_changed() -> None:
    """Sealing is randomised, and shows nothing of the secret; refusals have no detail."""
    recipient = RecipientKey.generate()
    sealed, other = (seal(SECRET, recipient.public_bytes, INFO) for _ in range(2))
    assert len(sealed) == len(other) == sealed_bytes(512)
    assert sealed != other
    assert SECRET[:8] not in sealed
    assert recipient.decrypt(sealed, INFO) == SECRET
    whole = int.from_bytes(sealed, "big")
    changed = [(whole ^ 1 << bit).to_bytes(80, "big") for bit in range(0, 640, 7)]
    changed += [sealed[:length] for length in (0, 31, 32, 48, 79)]
    changed += [sealed + b"\x00", b"\x00" + sealed]
    changed += [bytes.fromhex(point) + sealed[32:] for point in LOW_ORDER_POINTS]
    others = recipient, RecipientKey.generate()
    for each, key, info in [
        *((each, recipient, INFO) for each in changed),
        *((sealed, key, own) for key, own in zip(others, (b"another purpose", INFO), strict=True)),
    ]:
        with pytest.raises(SealError) as refusal:
            key.decrypt(each, info)
        assert (refusal.value.args, refusal.value.__cause__) == ((), None)


@pytest.mark.parametrize("public", ["", "02" * 31, "02" * 33, *LOW_ORDER_POINTS])
def test_an_unusable_public_key_gets_random_bytes(public: str) -> None:
    """Nothing is sealed to a key of the wrong length or of small order, but the size fits."""
    one, other = (seal(SECRET, bytes.fromhex(public), INFO) for _ in range(2))
    assert len(one) == len(other) == sealed_bytes(512)
    assert one[:32] != other[:32]
    assert not any(SECRET[at : at + 4] in one for at in range(29))


def test_sizes_are_fixed() -> None:
    """A sealed key has 48 bytes more than half a modulus, and a recipient's own key has 32."""
    assert [sealed_bytes(key_bits) for key_bits in (512, 2048, 3072)] == [80, 176, 240]
    for size in (0, 31, 33):
        with pytest.raises(SealError) as refusal:
            RecipientKey.from_bytes(bytes(size))
        assert refusal.value.args == ()
