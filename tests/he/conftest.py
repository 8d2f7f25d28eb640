"""Keys shared by all tests of the encryption; 512 bits are fast, and far too short for use."""

import pytest

from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key


@pytest.fixture(scope="session")
def secret_key() -> SecretKey:
    """Return a key of 512 bits."""
    return generate_secret_key(512)


@pytest.fixture(scope="session")
def bad_vectors(secret_key: SecretKey) -> dict[str, bytes]:
    """Return vectors that every check of a single ciphertext must refuse."""
    n, p = secret_key.public_key.n, secret_key._p
    good = secret_key.encrypt([3])
    numbers = {
        "0": 0, "n": n, "multiple of p": p * 12345, "multiple of q": secret_key._q * 54321,
        "n^2": n**2, "n^2+1": n**2 + 1, "all ones": 2**1024 - 1,
    }  # fmt: skip
    return {name: number.to_bytes(128, "big") for name, number in numbers.items()} | {
        "empty": b"", "truncated": good[:-1], "padded": b"\x00" + good, "two": good + good,
    }  # fmt: skip
