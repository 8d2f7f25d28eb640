"""Tests of the public key and of what it accepts as a ciphertext."""

import hashlib
import pickle

import pytest

from dubhe_flwr.errors import InvalidCiphertextError, MalformedMessageError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.secret_key import SecretKey


def test_bytes_round_trip(secret_key: SecretKey) -> None:
    """A modulus travels as big-endian bytes of fixed length."""
    public_key = secret_key.public_key
    data = public_key.to_bytes()
    assert len(data) == 64
    assert PublicKey.from_bytes(data, 512) == public_key
    assert PublicKey.from_bytes(data, 512).digest() == hashlib.sha256(data).digest()
    assert pickle.loads(pickle.dumps(public_key)) == public_key  # noqa: S301


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(64), id="zero"),
        pytest.param(b"\xff" * 63, id="short"),
        pytest.param(b"\xff" * 65, id="long"),
        pytest.param(b"\x00" + b"\xff" * 64, id="padded"),
        pytest.param(b"\x7f" + b"\xff" * 63, id="top bit clear"),
        pytest.param(b"\xff" * 63 + b"\xfe", id="even"),
    ],
)
def test_unfit_modulus_is_refused(data: bytes) -> None:
    """Only an odd number of exactly the expected size is a modulus."""
    with pytest.raises(MalformedMessageError, match="512 bits"):
        PublicKey.from_bytes(data, 512)


def test_invalid_ciphertext_is_found(secret_key: SecretKey, bad_vectors: dict[str, bytes]) -> None:
    """Zero, multiples of n or of a prime, numbers out of range and wrong lengths are invalid."""
    for name, vector in bad_vectors.items():
        assert not secret_key.public_key.is_valid(vector), name
    # These need no arithmetic to be found, so that parsing refuses them.
    for name in ("0", "n^2", "n^2+1", "all ones", "empty", "truncated", "padded", "two"):
        with pytest.raises(InvalidCiphertextError):
            secret_key.public_key.parse(bad_vectors[name])


def test_vector_is_valid_only_as_a_whole(secret_key: SecretKey) -> None:
    """One bad ciphertext anywhere, or a wrong number of them, makes a vector invalid."""
    public_key = secret_key.public_key
    good = [secret_key.encrypt([value]) for value in range(3)]
    assert public_key.is_valid(b"".join(good), 3)
    assert not public_key.is_valid(b"".join(good), 2)
    assert not public_key.is_valid(b"", 0)
    for place in range(3):
        spoiled = [*good]
        spoiled[place] = public_key.n.to_bytes(128, "big")
        assert not public_key.is_valid(b"".join(spoiled), 3)


def test_both_ends_of_the_range_are_valid(secret_key: SecretKey) -> None:
    """From 1, an encryption of 0 that no client will ever produce, to n^2 - 1."""
    public_key = secret_key.public_key
    one, last = (number.to_bytes(128, "big") for number in (1, public_key.n_square - 1))
    assert public_key.is_valid(one)
    assert secret_key.decrypt(one) == [0]
    assert public_key.parse(last) == [public_key.n_square - 1]
