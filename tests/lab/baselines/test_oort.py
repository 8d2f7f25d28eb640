"""Tests of Oort against worked examples of its formulas."""

from collections import Counter

import numpy as np
import pytest

from dubhe_lab.baselines import OortSelector
from dubhe_lab.baselines.oort import exploit, scores
from dubhe_lab.baselines.roll_call import Past, Report


def test_a_worked_example_of_the_score() -> None:
    """Utilities 1, 2, 3 score (U - .999) / 2.001, plus sqrt(.1 ln 10 / L) in round 10."""
    found = scores([1.0, 2.0, 3.0], [9, 1, 4], server_round=10)
    by_hand = [0.0005 + 0.15995, 0.50025 + 0.47985, 1.0 + 0.23993]
    np.testing.assert_allclose(found, by_hand, atol=1e-5)


def test_a_single_high_utility_is_clipped() -> None:
    """The two highest of a hundred utilities are clipped to the 99th; the range is not clipped."""
    utilities = [*range(1, 99), 500.0, 1000.0]
    found = scores(utilities, [1] * 100, server_round=1)
    assert found[99] == found[98] == pytest.approx((500 - 0.999) / (1000 - 0.999))
    assert found[97] == pytest.approx((98 - 0.999) / (1000 - 0.999))


def test_a_worked_example_of_exploitation() -> None:
    """For one place the second best score, .9, sets the cut-off at .63: .5 is out and .7 is in."""
    rng, times, draws = np.random.default_rng(0), Counter[int](), 2000
    for _ in range(draws):
        times.update(exploit([0.5, 0.9, 1.0, 0.7], 1, rng).tolist())
    assert set(times) == {1, 2, 3}
    for row, score in ((1, 0.9), (2, 1.0), (3, 0.7)):
        share = score / 2.6
        assert abs(times[row] - draws * share) < 6 * np.sqrt(draws * share * (1 - share))


def chosen(known: dict[str, Report], num_rounds: int, num_clients: int = 40) -> list[int]:
    """Return the ten clients chosen by a selector with these reports."""
    aliases = [str(row) for row in range(num_clients)]
    past = Past(num_rounds, reports=known)
    found = OortSelector(10, seed=7).choose(aliases, past, np.random.default_rng(1))
    return [int(row) for row in found]


def test_new_clients_come_first_and_fewer_later() -> None:
    """One of ten places is exploited at exploration .864 in round 2, three at .601 in round 20."""
    assert len(set(chosen({}, 0))) == 10
    known = {str(row): Report(1, 1.0, 1.0 + row / 100) for row in range(10)}
    in_round_2 = chosen(known, 1)
    assert [sum(row < 10 for row in in_round_2), len(set(in_round_2))] == [1, 10]
    assert sum(row < 10 for row in chosen(known, 19)) == 3
    assert sum(row < 10 for row in chosen(known, 99)) == 8


def test_without_new_clients_the_explored_fill_the_round() -> None:
    """With two new clients left, both take part and eight explored clients fill the round."""
    known = {str(row): Report(1, 1.0, 1.0 + row / 100) for row in range(38)}
    found = chosen(known, 1)
    assert {38, 39} <= set(found)
    assert len(set(found)) == 10


def test_the_root_mean_square_counts() -> None:
    """Utility is the root mean square: 1, 2, 1 score .0005, 1, .0005, plus sqrt(.1 ln 2)."""
    known = {"0": Report(1, 1.0, 1.0), "1": Report(1, 1.0, 2.0), "2": Report(1, 9.0, 1.0)}
    selector = OortSelector(1, seed=7)
    rng, draws = np.random.default_rng(0), 2000
    drawn = [int(selector.choose("012", Past(1, reports=known), rng)[0]) for _ in range(draws)]
    share = 1.26328 / (1.26328 + 2 * 0.26428)
    assert np.mean(np.equal(drawn, 1)) == pytest.approx(share, abs=6 * np.sqrt(0.21 / draws))
