"""Tests of the tries of a round, and of the score by which an agent chooses one."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.determination import Tries, far_apart, fill_or_trim, scores_of
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.errors import SettingsError


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
