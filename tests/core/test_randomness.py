"""Tests of the generators that a seed and a path determine."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core import generator

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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((7, "a", "b"), (7, "ab")),
        ((7, "a", "b"), (7, "b", "a")),
        ((7, "1"), (7, 1)),
        ((7, 1), (71,)),
        ((7, 1, 2), (7, 12)),
        ((7, "a,1"), (7, "a", 1)),
        ((7, ""), (7,)),
        ((7, 'a", "b'), (7, "a", "b")),
    ],
)
def test_similar_paths_are_told_apart(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Paths that read alike when run together have generators of their own."""
    assert generator(*one).random() != generator(*other).random()


def test_order_of_use_changes_nothing() -> None:
    """Whoever comes first, and however much the others draw, each gets its own numbers."""
    aliases = ("0", "1", "2")
    alone = {alias: generator(7, alias).random(3).tolist() for alias in aliases}
    for order in permutations(aliases):
        drawn = {}
        for number, alias in enumerate(order):
            own = generator(7, alias)
            drawn[alias] = own.random(3).tolist()
            own.random(number)
        assert drawn == alone


def test_generators_share_no_state() -> None:
    """Two generators of one path, used in turns, do not move each other on."""
    one, other = generator(7, "x"), generator(7, "x")
    assert [one.random(), other.random()] == [generator(7, "x").random()] * 2


def test_neighbouring_paths_are_uncorrelated() -> None:
    """The first numbers of 4000 consecutive rounds look uniform and uncorrelated.

    Mean and correlation within five standard errors.
    """
    numbers = np.array([generator(7, "participation", "3", r).random() for r in range(4000)])
    assert abs(numbers.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 4000)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 5 / np.sqrt(4000)
