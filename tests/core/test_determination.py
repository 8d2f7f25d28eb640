"""Tests of the tries of a round, and of its pool of volunteers and their groups."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from dubhe_flwr.core.determination import (
    cut_into_groups,
    far_apart,
    fill_or_trim,
    group_sizes,
)

Mask = NDArray[np.bool_]


def mask(*clients: int, size: int) -> Mask:
    """Return which of the first clients are listed."""
    return np.isin(np.arange(size), clients)


@given(
    clients=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    num_participants=st.integers(1, 35),
    seed=st.integers(0, 2**32),
)
def test_every_try_has_exactly_k_clients(
    clients: list[tuple[bool, bool]], num_participants: int, seed: int
) -> None:
    """A try has K distinct eligible clients, volunteers first; fewer only if fewer are eligible."""
    volunteers, eligible = np.array(clients).T
    chosen = fill_or_trim(volunteers, eligible, num_participants, np.random.default_rng(seed))
    assert chosen.dtype == np.int64
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert eligible[chosen].all()
    assert chosen.size == min(num_participants, eligible.sum())
    num_willing = int((volunteers & eligible).sum())
    assert volunteers[chosen].sum() == min(num_participants, num_willing)


@pytest.mark.parametrize(
    ("volunteers", "kept", "pool", "picked"),
    [
        pytest.param((0, 2, 3, 5, 6), (), (0, 2, 3, 5, 6), 3, id="cut"),
        pytest.param((1,), (1,), (0, 2, 3, 5, 6), 2, id="fill"),
    ],
)
def test_trimming_and_filling_are_uniform(
    volunteers: tuple[int, ...], kept: tuple[int, ...], pool: tuple[int, ...], picked: int
) -> None:
    """All possible sets are equally likely (section 5.2): chi-square, p > 1e-4."""
    possible = [tuple(sorted(kept + some)) for some in combinations(pool, picked)]
    eligible = ~mask(4, 7, size=8)
    rng = np.random.default_rng(3)
    occurrences = dict.fromkeys(possible, 0)
    for _ in range(4000):
        chosen = fill_or_trim(mask(*volunteers, 7, size=8), eligible, 3, rng)
        occurrences[tuple(chosen.tolist())] += 1
    assert chisquare(list(occurrences.values())).pvalue > 1e-4


@given(st.integers(0, 999), st.integers(1, 9), st.integers(0, 8))
def test_tries_that_are_close_become_one(seed: int, num_participants: int, fewest: int) -> None:
    """The first try stays, any two are equal or far apart, and each is close to its original."""
    rng = np.random.default_rng(seed)
    tries = [np.sort(rng.choice(12, num_participants, replace=False)) for _ in range(9)]
    found = far_apart(tries, fewest)
    differ = [[len(np.setxor1d(a, b)) for a in found] for b in found]
    assert (len(found), found[0].tolist()) == (9, tries[0].tolist())
    assert all(number == 0 or number >= fewest for row in differ for number in row)
    moved = [len(np.setxor1d(*pair)) for pair in zip(tries, found, strict=True)]
    assert all(number == 0 or number < fewest for number in moved)


@given(num_participants=st.integers(1, 200), data=st.data())
def test_group_sizes_make_up_exactly_k(num_participants: int, data: st.DataObject) -> None:
    """There are K // g groups, none smaller than g, of at most two neighbouring sizes."""
    group_size = data.draw(st.integers(1, num_participants))
    sizes = group_sizes(num_participants, group_size)
    assert len(sizes) == num_participants // group_size
    assert sizes.sum() == num_participants
    assert sizes.min() >= group_size
    assert sizes.max() - sizes.min() <= 1
    assert sizes.tolist() == sorted(sizes.tolist())


@given(
    st.integers(3, 30), st.integers(0, 100), st.integers(10, 40), st.integers(0, 2**32), st.data()
)
def test_groups_are_disjoint_and_suffice(
    num_participants: int, extra: int, max_groups: int, seed: int, data: st.DataObject
) -> None:
    """Groups are disjoint, enough of each size, and leave over fewer clients than one group has."""
    group_size = data.draw(st.integers(3, num_participants))
    wanted = group_sizes(num_participants, group_size)
    pool = np.arange(1000, 1000 + num_participants + extra)
    rng = np.random.default_rng(seed)
    groups = cut_into_groups(pool, num_participants, group_size, max_groups, rng)
    together = np.concatenate(groups)
    assert len(set(together.tolist())) == together.size
    assert set(together.tolist()) <= set(pool.tolist())
    assert len(groups) <= max_groups
    assert len(groups) == max_groups or pool.size - together.size <= wanted.max()
    sizes = np.array([group.size for group in groups])
    for size in np.unique(wanted):
        proportion = len(groups) * (wanted == size).sum() / wanted.size
        assert (sizes == size).sum() >= (wanted == size).sum()
        assert abs((sizes == size).sum() - proportion) < wanted.size
    assert set(sizes.tolist()) == set(wanted.tolist())
    assert all(group.tolist() == sorted(group.tolist()) for group in groups)
