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


@given(rows=st.lists(NUMBERS, min_size=1, max_size=12))
@example(rows=[[2**60 - 1, 1 - 2**60]])
@example(rows=[[2**59, -(2**59)]] * 12)
def test_padded_sums_come_back(rows: list[list[int]]) -> None:
    """Sums come back once all pads are removed; with one left, the tag is wrong."""
    size = min(map(len, rows))
    table = np.array([row[:size] for row in rows]) // len(rows)
    factors = pads.pad(KEYS[0], b"factors", size)
    padding = [pads.pad(key, b"exchange 0", size + 1) for key in KEYS]
    sent = [pads.total([pads.tagged(row.tolist(), factors), *padding]) for row in table]
    total = pads.total(sent)
    for pad in padding * len(rows):
        with pytest.raises(DecryptionError):
            pads.untagged(total, factors)
        total = pads.difference(total, pad)
    assert pads.untagged(total, factors).tolist() == table.sum(axis=0).tolist()


def test_invalid_vector_is_refused() -> None:
    """A vector of the wrong length, or with a number not below the prime, is refused."""
    good = pads.written(np.array([1, pads.PRIME - 1], dtype=np.uint64))
    assert pads.read(good, 2).tolist() == [1, pads.PRIME - 1]
    for bad in (good[:-1], good + bytes(8), pads.PRIME.to_bytes(8, "big") * 2):
        with pytest.raises(DecryptionError):
            pads.read(bad, 2)


@pytest.mark.parametrize("public", [bytes(32), b"short"])
def test_an_unusable_key_agrees_on_nothing(public: bytes) -> None:
    """An unusable public key is refused; with all zeros, everybody would know the secret."""
    with pytest.raises(MalformedMessageError, match="not a usable"):
        pads.agreed_key(RecipientKey.generate(), public, b"")
