"""Tests of the generators that a seed and a path determine, and of the clients' draws."""

import secrets
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dubhe_flwr.core.randomness import generator, private_draws, simulated_draws

Path = tuple[str | int, ...]

text = st.text('\0a,"é€😀')  # all of Unicode would take seconds to list
paths = st.tuples(st.integers(), st.lists(st.one_of(st.integers(), text), max_size=4).map(tuple))


@settings(max_examples=30)
@given(one=paths, other=paths)
def test_only_equal_paths_share_numbers(one: tuple[int, Path], other: tuple[int, Path]) -> None:
    """Two generators give the same numbers if and only if seed and path are equal."""
    numbers = [generator(seed, *path).random(2).tolist() for seed, path in (one, other)]
    assert (numbers[0] == numbers[1]) == (one == other)


def test_more_tries_and_rounds_keep_the_first_draws() -> None:
    """Drawing more tries or rounds keeps the first ones, so runs with other H or T compare."""
    many = simulated_draws(7, "3", 1, 9, 70)
    assert many.shape == (9, 70)
    assert len(np.unique(many)) == many.size
    for first_round, num_rounds, tries in ((1, 9, 2), (4, 1, 33), (5, 3, 70), (9, 1, 1)):
        few = simulated_draws(7, "3", first_round, num_rounds, tries)
        rounds = slice(first_round - 1, first_round - 1 + num_rounds)
        assert few.tolist() == many[rounds, :tries].tolist()


def test_private_draws_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw takes the upper 53 bits of eight system bytes; it is never 1 and never seeded."""
    words: Iterator[int] = iter([0, 2**64 - 1, 2**63, 2**11, 2**11 - 1])

    def token_bytes(size: int) -> bytes:
        assert size == 40
        return b"".join(word.to_bytes(8, "little") for word in words)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    assert private_draws(5).tolist() == [0.0, 1 - 2**-53, 0.5, 2**-53, 0.0]
