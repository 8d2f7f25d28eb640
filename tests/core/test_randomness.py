"""Tests of the generators that a seed and a path determine, and of the draws of clients."""

import secrets
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from dubhe_flwr.core import generator, private_draws, seeded_draws

Path = tuple[str | int, ...]

paths = st.tuples(
    st.integers(), st.lists(st.one_of(st.integers(), st.text()), max_size=4).map(tuple)
)


@pytest.mark.parametrize(
    ("seed", "path", "raw"),
    [
        (7, (), 0xF5EDDA06D88E7542),
        (7, ("participation", "3", 1), 0xC34E091E3A3C38CB),
        (0, ("fill-or-trim", 2, 0), 0x9BD06A58DB1104B9),
        (-1, ("é", 2**70), 0x7D4B6E950746E366),
    ],
)
def test_numbers_are_stable_vectors(seed: int, path: Path, raw: int) -> None:
    """Recorded runs keep repeating: these numbers may change with a release note only."""
    assert generator(seed, *path).bit_generator.random_raw() == raw
    assert generator(seed, *path).random() == (raw >> 11) / 2**53


@given(one=paths, other=paths)
def test_equal_paths_and_only_they_share_numbers(
    one: tuple[int, Path], other: tuple[int, Path]
) -> None:
    """Two generators give the same numbers exactly if seed and path are the same."""
    numbers = [generator(seed, *path).random(2).tolist() for seed, path in (one, other)]
    assert (numbers[0] == numbers[1]) == (one == other)


def test_more_tries_and_rounds_keep_the_first_draws() -> None:
    """Few draws are the first of many, for comparisons over H and for any T."""
    many = seeded_draws(7, "3", 1, 9, 70)
    assert many.shape == (9, 70)
    assert len(np.unique(many)) == many.size
    for first_round, num_rounds, tries in ((1, 9, 2), (4, 1, 33), (5, 3, 70), (9, 1, 1)):
        few = seeded_draws(7, "3", first_round, num_rounds, tries)
        rounds = slice(first_round - 1, first_round - 1 + num_rounds)
        assert few.tolist() == many[rounds, :tries].tolist()


def test_private_draws_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw is made of the 53 upper bits of eight system bytes, never 1 and never seeded."""
    words: Iterator[int] = iter([0, 2**64 - 1, 2**63, 2**11, 2**11 - 1])

    def token_bytes(size: int) -> bytes:
        assert size == 40
        return b"".join(word.to_bytes(8, "little") for word in words)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    assert private_draws(5).tolist() == [0.0, 1 - 2**-53, 0.5, 2**-53, 0.0]


def test_private_draws_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform bytes make uniform draws: Kolmogorov-Smirnov over 10,000 of them, p > 1e-4."""
    monkeypatch.setattr(secrets, "token_bytes", np.random.default_rng(0).bytes)
    draws = private_draws(10_000)
    assert draws.dtype == np.float64
    assert kstest(draws, "uniform").pvalue > 1e-4


def test_private_draws_do_not_repeat() -> None:
    """Two calls share no number: 53 bits collide once in 10**15 runs."""
    assert not np.isin(private_draws(3), private_draws(3)).any()
    assert private_draws(0).shape == (0,)
