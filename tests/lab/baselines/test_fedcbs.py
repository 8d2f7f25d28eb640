"""Tests of Fed-CBS against worked examples of the paper's formulas."""

from collections import Counter

import numpy as np
import pytest

from dubhe_lab.baselines.fedcbs import (
    FedCbsSelector,
    class_imbalance,
    first_probabilities,
    next_probabilities,
)
from dubhe_lab.baselines.roll_call import Past

COUNTS = np.array([[8, 0], [6, 2], [2, 6]])


def test_a_worked_example_of_qcid() -> None:
    """Clients are weighted by size: 8 and 2 samples of two classes are shares of 0.8 and 0.2."""
    assert class_imbalance([[8, 0], [6, 2], [4, 4]]).tolist() == [0.5, 0.125, 0.0]
    assert class_imbalance(np.add([8, 0], [0, 2])) == pytest.approx(0.3**2 + 0.3**2)
    assert class_imbalance([1, 0, 0, 0]) == pytest.approx(0.75)


def test_a_worked_example_of_the_first_client() -> None:
    """1 / QCID is 2, 8 and 8; in round 10 exploration adds 10 sqrt(3 ln 10 / (2 T))."""
    in_round_1 = first_probabilities(COUNTS, [1, 4, 1], server_round=1)
    np.testing.assert_allclose(in_round_1, np.array([1, 4, 4]) / 9)
    in_round_10 = first_probabilities(COUNTS, [1, 4, 1], server_round=10)
    weights = np.array([2 + 18.58462, 8 + 9.29231, 8 + 18.58462])
    np.testing.assert_allclose(in_round_10, weights / weights.sum(), atol=1e-6)


def test_a_worked_example_of_the_next_clients() -> None:
    """QCIDs of 9/32 and 1/32 give odds of 1 to 81 in second place and 1 to 729 in third."""
    second = next_probabilities(COUNTS[1:], COUNTS[0], place=2)
    np.testing.assert_allclose(second, np.array([1, 81]) / 82)
    third = next_probabilities(COUNTS[1:], COUNTS[0], place=3)
    np.testing.assert_allclose(third, np.array([1, 729]) / 730)


def test_large_powers_do_not_overflow() -> None:
    """Probabilities stay finite where QCID^beta overflows, and where a set is balanced."""
    probabilities = next_probabilities([[9, 1], [1, 9]], [90_000, 90_010], place=500)
    np.testing.assert_allclose(probabilities, [1.0, 0.0], atol=1e-9)
    balanced = next_probabilities([[0, 8], [4, 4], [0, 8]], [8, 0], place=500)
    np.testing.assert_allclose(balanced, [0.5, 0.0, 0.5])
    assert first_probabilities([[4, 4], [8, 0]], [1, 1], 5)[0] == pytest.approx(1)


def test_clients_are_drawn_by_these_probabilities() -> None:
    """Over 1500 rounds each ordered pair occurs as often as computed by hand, within 6 sigma."""
    selector = FedCbsSelector(2, COUNTS, seed=7)
    rng, draws = np.random.default_rng(0), 1500
    drawn = Counter(tuple(selector.choose("012", Past(), rng).tolist()) for _ in range(draws))
    # (6, 2) and (2, 6) make (8, 8), which is balanced.
    by_hand = {(0, 1): 1 / 9 / 82, (0, 2): 81 / 9 / 82, (1, 2): 4 / 9, (2, 1): 4 / 9}
    assert set(drawn) <= set(by_hand)
    for pair, share in by_hand.items():
        assert abs(drawn[pair] - draws * share) < 6 * np.sqrt(draws * share * (1 - share))


def test_the_power_grows_with_the_place() -> None:
    """After (4, 4) and (6, 2), the two remaining clients have odds of 1 to 5.619."""
    selector = FedCbsSelector(3, [[4, 4], [6, 2], [6, 2], [5, 3]], seed=7)
    rng, third = np.random.default_rng(0), Counter[int]()
    for _ in range(1_500):
        chosen = selector.choose("0123", Past(), rng).tolist()
        assert chosen[0] == 0
        third[chosen[2]] += chosen[1] == 1
    # QCID is 1/18 for (16, 8) and 1/32 for (15, 9); their ratio 16/9 cubed is 5.619.
    share = 5.619 / 6.619
    assert abs(third[3] - third.total() * share) < 6 * np.sqrt(third.total() * share * (1 - share))


def test_exploration_favours_rarely_chosen_clients() -> None:
    """In round 101 exploration favours a client never chosen (T = 1) over its equals (T = 101)."""
    selector = FedCbsSelector(1, [[6, 2]] * 2, seed=7)
    rng, past = np.random.default_rng(0), Past(100, {"0": 100})
    drawn = [int(selector.choose("01", past, rng)[0]) for _ in range(2000)]
    # 8 + 10 sqrt(1.5 ln 101) = 34.3108 against 8 + 10 sqrt(1.5 ln 101 / 101) = 10.6180
    assert np.mean(drawn) == pytest.approx(34.3108 / 44.9288, abs=6 * np.sqrt(0.18 / 2000))
