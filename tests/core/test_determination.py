"""Tests of the tries of a round, and of the score by which an agent chooses one."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from dubhe_flwr.core.determination import Tries, far_apart, fill_or_trim, scores_of
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE, fixed_point_distribution, with_square
from dubhe_flwr.errors import SettingsError


def mask(*clients: int) -> NDArray[np.bool_]:
    """Return which of eight clients are listed."""
    return np.isin(np.arange(8), clients)


@pytest.mark.parametrize("number", [0, 2.0, True, 2**31])
def test_a_number_that_cannot_work_is_refused(number: Any) -> None:
    """The error names the number and its value."""
    with pytest.raises(SettingsError, match=rf"Tries\({number!r}\) needs a whole number of"):
        Tries(number)


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
    eligible = ~mask(4, 7)
    rng = np.random.default_rng(3)
    occurrences = dict.fromkeys(possible, 0)
    for _ in range(4000):
        chosen = fill_or_trim(mask(*volunteers, 7), eligible, 3, rng)
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


@given(
    st.lists(st.sampled_from([0.25, 0.5, 1.0, 4.0]), min_size=2, max_size=6),
    *(st.integers(0, most) for most in (16, 999)),
)
def test_clients_count_by_their_weight(weights: list[float], eighths: int, seed: int) -> None:
    """With unequal clients and a target, the definition's means are weighted."""
    target = np.array([0.4, 0.3, 0.2, 0.1])
    shares = np.random.default_rng(seed).dirichlet(np.full(4, 0.3), len(weights))
    integers = [
        with_square(fixed_point_distribution(row * 2**40, round(FIXED_POINT_SCALE * weight / 4)))
        for row, weight in zip(shares, weights, strict=True)
    ]
    distance = np.abs(np.average(shares - target, axis=0, weights=weights)).sum()
    local = np.average(((shares - target) ** 2).sum(axis=1), weights=weights)
    (found,) = scores_of([np.sum(integers, axis=0)], eighths / 8, target)
    assert found == pytest.approx(distance + eighths / 8 * local, abs=2e-4)


@given(st.lists(st.integers(0, 2**24), min_size=2, max_size=12).filter(any))
def test_a_score_is_the_exact_distance(shares: list[int]) -> None:
    """Without a price of local skew a score is ||p_o - p_u||_1, correctly rounded."""
    total, number = sum(shares), len(shares)
    exact = sum(abs(Fraction(share, total) - Fraction(1, number)) for share in shares)
    assert scores_of([[*shares, 0]]).tolist() == [float(exact)]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_do_not_overflow(dtype: type[np.integer]) -> None:
    """A million clients that all hold the same class of 62 score exactly the largest distance."""
    sums = np.zeros((2, 63), dtype=dtype)
    sums[0, 0] = 10**6 * FIXED_POINT_SCALE
    sums[1, :2] = 10**6 * FIXED_POINT_SCALE // 2
    assert scores_of(sums).tolist() == [2 * 61 / 62, 2 * 60 / 62]


@pytest.mark.parametrize("local_skew", [-0.1, float("nan"), 1001.0])
def test_price_out_of_range_is_refused(local_skew: float) -> None:
    """A price is at least 0 and small enough for exact integers."""
    with pytest.raises(SettingsError, match="local_skew"):
        scores_of([[1, 1, 2]], local_skew)
