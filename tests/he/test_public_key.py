"""Tests of the public key: what it accepts as a ciphertext, and how it adds them up."""

import pytest

from dubhe_flwr.errors import InvalidCiphertextError, MalformedMessageError, SettingsError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.secret_key import SecretKey


@pytest.mark.parametrize(
    "data", [b"", b"\x00" + b"\xff" * 64, b"\x7f" + b"\xff" * 63, b"\xff" * 63 + b"\xfe"]
)
def test_unfit_modulus_is_refused(data: bytes) -> None:
    """Only an odd number of exactly the expected size is a modulus."""
    with pytest.raises(MalformedMessageError, match="512 bits"):
        PublicKey.from_bytes(data, 512)


def test_invalid_ciphertext_is_found(secret_key: SecretKey, bad_vectors: dict[str, bytes]) -> None:
    """Zero, multiples of n or of a prime, numbers out of range and wrong lengths are invalid.

    Valid are numbers from 1, an encryption of 0 that no client will ever produce, to n^2 - 1.
    """
    public_key = secret_key.public_key
    for vector in bad_vectors.values():
        with pytest.raises(InvalidCiphertextError):
            public_key.add_up([vector])
    # These need no arithmetic to be found, so that parsing refuses them.
    for name in ("0", "n^2", "n^2+1", "all ones", "empty", "truncated", "padded", "two"):
        with pytest.raises(InvalidCiphertextError):
            public_key.parse(bad_vectors[name])
    one, last = (number.to_bytes(128, "big") for number in (1, public_key.n_square - 1))
    assert secret_key.decrypt(one) == [0]
    assert public_key.parse(last) == [public_key.n_square - 1]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_vector_is_valid_only_as_a_whole(secret_key: SecretKey, place: int) -> None:
    """One bad ciphertext anywhere, or a wrong number of them or of vectors, is enough."""
    add_up = secret_key.public_key.add_up
    good = secret_key.encrypt([0, 1, 2])
    for vectors, number in (([good, good[:256]], 3), ([good], 2), ([b""], 0)):
        with pytest.raises(InvalidCiphertextError, match="bytes instead of"):
            add_up(vectors, number)
    # A multiple of a prime passes the range check, but not the sum.
    spoilt = (secret_key._p * 99).to_bytes(128, "big")
    spoilt = good[: 128 * place] + spoilt + good[128 * (place + 1) :]
    with pytest.raises(InvalidCiphertextError, match="not a unit"):
        add_up([good, spoilt, good], 3)
    with pytest.raises(SettingsError, match="No vectors"):
        add_up([])
