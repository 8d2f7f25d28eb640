"""Tests of encrypted sums, and of vectors that cannot be added."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import InvalidCiphertextError, SettingsError
from dubhe_flwr.he.secret_key import SecretKey


@given(
    rows=st.lists(st.tuples(st.integers(0, 2**200), st.integers(0, 2**200)), min_size=1, max_size=8)
)
def test_sum_adds_plaintexts_place_by_place(
    secret_key: SecretKey, rows: list[tuple[int, int]]
) -> None:
    """The product of encryptions decrypts to the sum, slot by slot."""
    expected = [sum(column) for column in zip(*rows, strict=True)]
    total = secret_key.public_key.add_up((secret_key.encrypt(row) for row in rows), 2)
    assert secret_key.decrypt(total) == expected
    assert len(total) == 256


@pytest.mark.parametrize("place", [0, 1])
def test_addend_that_is_not_a_unit_is_found(secret_key: SecretKey, place: int) -> None:
    """A multiple of a prime passes the range check but fails the sum, and is_valid finds it."""
    vectors = [secret_key.encrypt([value, value]) for value in range(5)]
    parts = [vectors[3][:128], vectors[3][128:]]
    parts[place] = (secret_key._p * 99).to_bytes(128, "big")
    vectors[3] = b"".join(parts)
    with pytest.raises(InvalidCiphertextError, match="is_valid"):
        secret_key.public_key.add_up(vectors, 2)
    culprits = [
        index
        for index, vector in enumerate(vectors)
        if not secret_key.public_key.is_valid(vector, 2)
    ]
    assert culprits == [3]


def test_empty_sum_is_refused(secret_key: SecretKey) -> None:
    """An empty sum would be the number 1, which hides nothing."""
    with pytest.raises(SettingsError, match="no vectors"):
        secret_key.public_key.add_up([])


def test_invalid_vector_is_not_added(secret_key: SecretKey) -> None:
    """A vector of the wrong length or out of range is refused."""
    good = secret_key.encrypt([1, 2])
    for bad in (good[:128] + bytes(128), good[:128], good + good[:128], b""):
        with pytest.raises(InvalidCiphertextError):
            secret_key.public_key.add_up([good, bad], 2)
