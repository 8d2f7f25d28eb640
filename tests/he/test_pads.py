"""Tests of pads, and of the tag that reveals a changed sum."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dubhe_flwr.errors import DecryptionError, MalformedMessageError
from dubhe_flwr.he import pads
from dubhe_flwr.he.sealing import RecipientKey

KEYS = [bytes([number]) * 32 for number in range(3)]
NUMBERS = st.lists(st.integers(-(2**59), 2**59), min_size=1, max_size=5)


@given(rows=st.lists(NUMBERS, min_size=1, max_size=6))
@example(rows=[[2**60 - 1, 1 - 2**60]])
def test_padded_sums_come_back(rows: list[list[int]]) -> None:
    """Sums come back once all pads are removed; with one left, the tag is wrong."""
    size = min(map(len, rows))
    table = np.array([row[:size] for row in rows]) // len(rows)
    factors = pads.pad(KEYS[0], b"factors", size)
    padding = [pads.pad(key, b"exchange 0", size + 1) for key in KEYS]
    sent = [pads.total([pads.tagged(row.tolist(), factors), *padding]) for row in table]
    total = pads.read(pads.written(pads.total(sent)), size + 1)
    for place, pad in enumerate(padding):
        for _ in range(len(rows)):
            if place == len(padding) - 1:
                with pytest.raises(DecryptionError):
                    pads.untagged(total, factors)
            total = pads.difference(total, pad)
    assert pads.untagged(total, factors).tolist() == table.sum(axis=0).tolist()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_change_is_noticed(place: int) -> None:
    """A changed number or tag is refused."""
    factors = pads.pad(KEYS[0], b"factors", 2)
    vector = pads.tagged([7, -3], factors)
    vector[place] = (int(vector[place]) + 1) % pads.PRIME
    with pytest.raises(DecryptionError):
        pads.untagged(vector, factors)


def test_pads_are_uniform_and_differ() -> None:
    """Pads are uniform, differ by key and name, and repeat for the same key and name."""
    drawn = [pads.pad(key, name, 4000) for key in KEYS for name in (b"a", b"b")]
    assert len(np.unique(drawn)) == 6 * 4000
    means = np.mean(drawn, axis=1, dtype=np.float64) / pads.PRIME
    assert means == pytest.approx(0.5, abs=0.02)
    assert np.array_equal(pads.pad(KEYS[0], b"a", 5), drawn[0][:5])


def test_invalid_vector_is_refused() -> None:
    """A vector of the wrong length, or with a number not below the prime, is refused."""
    good = pads.written(np.array([1, pads.PRIME - 1], dtype=np.uint64))
    assert pads.read(good, 2).tolist() == [1, pads.PRIME - 1]
    for bad in (good[:-1], good + bytes(8), pads.PRIME.to_bytes(8, "big") * 2, b""):
        with pytest.raises(DecryptionError):
            pads.read(bad, 2)


@pytest.mark.parametrize("public", [bytes(32), b"short"])
def test_an_unusable_key_agrees_on_nothing(public: bytes) -> None:
    """An unusable public key is refused; with all zeros, everybody would know the secret."""
    with pytest.raises(MalformedMessageError, match="not a usable"):
        pads.agreed_key(RecipientKey.generate(), public, b"")
