"""Tests of the draws that real clients make; the vectors have those of simulated ones."""

import secrets
from collections.abc import Iterator

import pytest

from dubhe_flwr.core.randomness import private_draws


def test_private_draws_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw takes the upper 53 bits of eight system bytes; it is never 1 and never seeded."""
    words: Iterator[int] = iter([0, 2**64 - 1, 2**63, 2**11, 2**11 - 1])

    def token_bytes(size: int) -> bytes:
        assert size == 40
        return b"".join(word.to_bytes(8, "little") for word in words)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    assert private_draws(5).tolist() == [0.0, 1 - 2**-53, 0.5, 2**-53, 0.0]
