"""Keys that all tests of the encryption share; 512 bits are quick and far too short for use."""

import pytest

from dubhe_flwr.he import PublicKey, SecretKey, generate_secret_key


@pytest.fixture(scope="session")
def secret_key() -> SecretKey:
    """Return a key of 512 bits."""
    return generate_secret_key(512)


@pytest.fixture(scope="session")
def foreign_key() -> SecretKey:
    """Return another key of 512 bits."""
    return generate_secret_key(512)


@pytest.fixture(scope="session")
def full_size_key() -> SecretKey:
    """Return a key of 2048 bits."""
    return generate_secret_key(2048)


@pytest.fixture(scope="session")
def public_key(secret_key: SecretKey) -> PublicKey:
    """Return the public half of the key of 512 bits."""
    return secret_key.public_key
