"""Tests of homomorphic sums."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import InvalidCiphertextError, MalformedMessageError, SettingsError
from dubhe_flwr.he import Accumulator, PublicKey, SecretKey, homomorphic_sum


@given(
    rows=st.lists(st.tuples(st.integers(0, 2**200), st.integers(0, 2**200)), min_size=1, max_size=8)
)
def test_sum_adds_plaintexts_place_by_place(
    secret_key: SecretKey, rows: list[tuple[int, int]]
) -> None:
    """The product of encryptions decrypts to the sum of plaintexts."""
    vectors = (secret_key.encrypt(row) for row in rows)
    total = homomorphic_sum(secret_key.public_key, vectors, num_ciphertexts=2)
    assert secret_key.decrypt(total) == [sum(column) for column in zip(*rows, strict=True)]


@given(data=st.data())
def test_partial_sums_merge_in_any_order(secret_key: SecretKey, data: st.DataObject) -> None:
    """However vectors are ordered and split among partial sums, the result is the same bytes."""
    vectors = [secret_key.encrypt([value, 1]) for value in range(6)]
    expected = homomorphic_sum(secret_key.public_key, vectors, 2)
    places = data.draw(st.lists(st.integers(0, 2), min_size=6, max_size=6))
    partial = [Accumulator(secret_key.public_key, 2) for _ in range(3)]
    for vector, place in data.draw(st.permutations(list(zip(vectors, places, strict=True)))):
        partial[place].add(vector)
    total, *others = data.draw(st.permutations(partial))
    for other in others:
        total.merge(other)
    assert total.value() == expected
    assert total.num_addends == 6


def test_refused_vector_leaves_the_sum_alone(secret_key: SecretKey) -> None:
    """A vector whose second ciphertext is out of range adds nothing, not even its first."""
    total = Accumulator(secret_key.public_key, 2)
    good = secret_key.encrypt([1, 2])
    total.add(good)
    for bad in (good[:128] + bytes(128), good[:128], good + good[:128], b""):
        with pytest.raises(InvalidCiphertextError):
            total.add(bad)
    assert total.value() == good
    assert total.num_addends == 1


@pytest.mark.parametrize("place", [0, 1])
def test_addend_that_is_no_unit_is_found(secret_key: SecretKey, place: int) -> None:
    """A multiple of a prime passes the range check, fails the sum, and is found one by one."""
    vectors = [secret_key.encrypt([value, value]) for value in range(5)]
    parts = [vectors[3][:128], vectors[3][128:]]
    parts[place] = (secret_key._p * 99).to_bytes(128, "big")
    vectors[3] = b"".join(parts)
    with pytest.raises(InvalidCiphertextError, match="is_valid"):
        homomorphic_sum(secret_key.public_key, vectors, 2)
    culprits = [
        index
        for index, vector in enumerate(vectors)
        if not secret_key.public_key.is_valid(vector, 2)
    ]
    assert culprits == [3]


def test_sum_of_nothing_has_no_value(public_key: PublicKey) -> None:
    """An empty sum would be the number 1, which hides nothing."""
    with pytest.raises(SettingsError, match="no vectors"):
        homomorphic_sum(public_key, [])


def test_sums_of_other_keys_or_lengths_do_not_merge(
    public_key: PublicKey, foreign_key: SecretKey
) -> None:
    """Only partial sums of one field and key belong together."""
    total = Accumulator(public_key, 2)
    for other in (Accumulator(public_key, 1), Accumulator(foreign_key.public_key, 2)):
        with pytest.raises(SettingsError, match="key or length"):
            total.merge(other)


def test_vector_has_a_ciphertext(public_key: PublicKey) -> None:
    """A sum of vectors of no ciphertexts is refused."""
    with pytest.raises(SettingsError, match="num_ciphertexts=0"):
        Accumulator(public_key, 0)


NUM_LEAVES = 24


def merged_in_a_random_tree(
    vectors: list[bytes], public_key: PublicKey, rng: np.random.Generator
) -> Accumulator:
    """Merge two random partial sums until one is left; about half of them travel as bytes."""
    partial = []
    for vector in vectors:
        partial.append(Accumulator(public_key, 2))
        partial[-1].add(vector)
    while len(partial) > 1:
        left, right = (partial.pop(int(rng.integers(len(partial)))) for _ in range(2))
        if rng.random() < 0.5:
            right = Accumulator.from_bytes(right.to_bytes(), public_key, 2)
        left.merge(right)
        partial.append(left)
    return partial[0]


def test_a_thousand_random_trees_give_the_same_bytes(secret_key: SecretKey) -> None:
    """Aggregators can be stacked in any shape, on any machine: no bit of the sum depends on it."""
    vectors = [secret_key.encrypt([2**value, value]) for value in range(NUM_LEAVES)]
    expected = homomorphic_sum(secret_key.public_key, vectors, 2)
    assert secret_key.decrypt(expected) == [2**NUM_LEAVES - 1, sum(range(NUM_LEAVES))]
    rng = np.random.default_rng(7)
    for _ in range(1000):
        total = merged_in_a_random_tree(vectors, secret_key.public_key, rng)
        assert total.value() == expected
        assert total.num_addends == NUM_LEAVES


def test_an_empty_partial_sum_travels_too(secret_key: SecretKey) -> None:
    """An aggregator to which nobody came adds nothing."""
    empty = Accumulator(secret_key.public_key, 2)
    again = Accumulator.from_bytes(empty.to_bytes(), secret_key.public_key, 2)
    assert again.num_addends == 0
    vector = secret_key.encrypt([1, 2])
    again.add(vector)
    assert again.value() == vector


def spoilt_partial_sums(secret_key: SecretKey) -> Iterator[tuple[bytes, type[Exception], str]]:
    """Yield what is no partial sum, with the error that says so."""
    partial = Accumulator(secret_key.public_key, 2)
    partial.add(secret_key.encrypt([1, 2]))
    good = partial.to_bytes()
    malformed, invalid = MalformedMessageError, InvalidCiphertextError
    for bad in (b"", good[:-1], good + b"\0", good[:41], good[:40], b"\2" + good[1:]):
        yield bad, malformed, "no partial sum of this length"
    yield good[:9] + bytes(32) + good[41:], malformed, "under another key"
    yield good[:1] + bytes(8) + good[9:], malformed, "no vectors has a value"
    yield good[:41] + bytes(128) + good[-128:], invalid, "outside"
    yield good[:-128] + b"\xff" * 128, invalid, "outside"
    yield good[:-128] + (secret_key._p * 99).to_bytes(128, "big"), invalid, "no unit"


def test_bytes_that_are_no_partial_sum_are_refused(secret_key: SecretKey) -> None:
    """Whatever another machine sends: a typed error, never a wrong sum."""
    cases = list(spoilt_partial_sums(secret_key))
    assert len(cases) == 11
    for data, error, match in cases:
        with pytest.raises(error, match=match):
            Accumulator.from_bytes(data, secret_key.public_key, 2)


@given(data=st.binary(max_size=400))
def test_random_bytes_are_no_partial_sum(public_key: PublicKey, data: bytes) -> None:
    """Only typed errors come out of the parser."""
    with pytest.raises((MalformedMessageError, InvalidCiphertextError)):
        Accumulator.from_bytes(data, public_key, 2)
