"""Tests of Power-of-Choice; its docstring has a worked example."""

from collections import Counter

import numpy as np

from dubhe_lab.baselines import PowerOfChoiceSelector
from dubhe_lab.baselines.roll_call import Past, Report

ALIASES = [str(row) for row in range(6)]


def past_of(losses: dict[str, float], server_round: int = 3) -> Past:
    """Return the past after two rounds, with these losses reported in `server_round`."""
    return Past(2, reports={of: Report(server_round, loss, loss) for of, loss in losses.items()})


def test_a_loss_of_an_earlier_round_does_not_count() -> None:
    """Client 5 had the highest loss in round 2, but is not a candidate in round 3."""
    past = past_of({"0": 0.3, "1": 1.2}).with_reports({"5": Report(2, 9.0, 9.0)})
    selector = PowerOfChoiceSelector(2, seed=7)
    chosen = selector.choose(ALIASES, past, np.random.default_rng(0))
    assert chosen.tolist() == [1, 0]


def test_ties_are_broken_at_random() -> None:
    """Four candidates with the same loss are chosen equally often, within 6 sigma."""
    past, times = past_of(dict.fromkeys("0123", 0.5)), Counter[int]()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        times.update(PowerOfChoiceSelector(2, seed=7).choose(ALIASES, past, rng).tolist())
    assert set(times) == {0, 1, 2, 3}
    assert all(abs(number - 1000) < 6 * np.sqrt(500) for number in times.values())


def test_candidates_are_drawn_uniformly() -> None:
    """There are min(2 K, N) candidates, and each client is one equally often, within 6 sigma."""
    rng, times = np.random.default_rng(0), Counter[int]()
    for _ in range(3000):
        drawn = PowerOfChoiceSelector(2, seed=7).candidates(ALIASES, Past(), rng).tolist()
        assert len(set(drawn)) == 4
        times.update(drawn)
    assert all(abs(times[row] - 2000) < 6 * np.sqrt(3000 * 2 / 9) for row in range(6))
    assert len(PowerOfChoiceSelector(5, seed=7).candidates(ALIASES, Past(), rng)) == 6
