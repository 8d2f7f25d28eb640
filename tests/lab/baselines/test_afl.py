"""Tests of Active Federated Learning against worked examples."""

from collections import Counter

import numpy as np
import pytest

from dubhe_lab.baselines import ActiveSelector
from dubhe_lab.baselines.afl import draw_by_value
from dubhe_lab.baselines.roll_call import Past, Report


def test_a_worked_example() -> None:
    """Six of eight clients are left out, and a gap of 100 in value gives odds of e to 1.

    For K = 2 one client is drawn by value (.9 x 2 rounds down to 1) and the other uniformly.
    """
    rng, first, second = np.random.default_rng(0), Counter[int](), Counter[int]()
    draws = 2000
    for _ in range(draws):
        drawn, other = draw_by_value(100 * np.arange(8), 2, rng).tolist()
        first[drawn] += 1
        second[other] += drawn == 7
    assert set(first) == {6, 7}
    share = np.e / (1 + np.e)
    assert abs(first[7] - draws * share) < 6 * np.sqrt(draws * share * (1 - share))
    assert set(second) - {7} == set(range(7))
    assert second[7] == 0
    assert all(abs(second[row] - first[7] / 7) < 6 * np.sqrt(first[7] / 7) for row in range(7))


def test_enough_clients_are_left_to_draw_from() -> None:
    """With K = 10 of 12 clients, nine are drawn by value, and only three are left out."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        drawn = draw_by_value(np.arange(12)[::-1], 10, rng).tolist()
        assert set(drawn[:9]) == set(range(9))
        assert drawn[9] in {9, 10, 11}


def test_large_values_do_not_overflow() -> None:
    """Probabilities stay finite where exp(.01 v) overflows."""
    drawn = draw_by_value([1e6, 1e6 + 2000] + [0] * 6, 2, np.random.default_rng(0))
    assert drawn[0] == 1


def test_the_value_is_the_root_of_the_samples_times_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 samples and a loss of .5 give a value of 2, which lasts until the client trains again."""
    seen: list[list[float]] = []

    def note(values: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
        seen.append(values.tolist())
        return np.arange(number)

    monkeypatch.setattr("dubhe_lab.baselines.afl.draw_by_value", note)
    past = Past(9, reports={"0": Report(1, 0.5, 0.6), "2": Report(8, 0.25, 0.3)})
    ActiveSelector(1, num_samples=16, seed=7).choose("012", past, np.random.default_rng(0))
    assert seen == [[2.0, 0.0, 1.0]]


def test_clients_without_a_value_evaluate_the_model() -> None:
    """All clients evaluate in the first round, and newcomers when they appear."""
    selector, rng = ActiveSelector(1, num_samples=16, seed=7), np.random.default_rng(0)
    assert selector.candidates("012", Past(), rng).tolist() == [0, 1, 2]
    past = Past(1, reports={"0": Report(1, 1.0, 1.0), "2": Report(1, 1.0, 1.0)})
    assert selector.candidates("012", past, rng).tolist() == [1]
