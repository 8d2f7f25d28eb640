"""Tests of the tries of a round, and of the score by which an agent chooses one."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.determination import Tries, far_apart, scores_of
from dubhe_flwr.errors import SettingsError


@pytest.mark.parametrize("number", [0, 2.0, True, 2**31])
def test_a_number_that_cannot_work_is_refused(number: Any) -> None:
    """The error names the number and its value."""
    with pytest.raises(SettingsError, match=rf"Tries\({number!r}\) needs a whole number of"):
        Tries(number)


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


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=62).filter(any))
def test_a_score_is_the_exact_distance(shares: list[int]) -> None:
    """Without a price of local skew a score is ||p_o - p_u||_1, correctly rounded."""
    total, number = sum(shares), len(shares)
    exact = sum(abs(Fraction(share, total) - Fraction(1, number)) for share in shares)
    assert scores_of([[*shares, 0]]).tolist() == [float(exact)]


@pytest.mark.parametrize("local_skew", [-0.1, float("nan"), 1001.0])
def test_price_out_of_range_is_refused(local_skew: float) -> None:
    """A price is at least 0 and small enough for exact integers."""
    with pytest.raises(SettingsError, match="local_skew"):
        scores_of([[1, 1, 2]], local_skew)
