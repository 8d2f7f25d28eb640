"""Tests of the participation probability, exact and statistical."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chi2

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.randomness import simulated_draws
from dubhe_flwr.core.registration import participation_probability
from dubhe_lab.data import client_distributions, half_normal_proportions
from dubhe_lab.data.measures import overall_registry

NUM_CLIENTS, NUM_PARTICIPANTS, NUM_DRAWS = 1000, 20, 10_000

registries = st.lists(st.integers(0, 10_000), min_size=1, max_size=60)


@given(counts=registries, num_participants=st.integers(1, 2000))
@example(counts=[0, 0, 0], num_participants=20)
def test_probability_follows_equation_6(counts: list[int], num_participants: int) -> None:
    """P = min(1, K / (R_A(u) ||R_A||_0)) in each filled category, and 0 in an empty one."""
    num_filled = sum(count > 0 for count in counts)
    expected = [
        float(min(Fraction(1), Fraction(num_participants, count * num_filled))) if count else 0.0
        for count in counts
    ]
    assert participation_probability(counts, num_participants).tolist() == expected


def test_probability_of_a_million_clients() -> None:
    """A million clients per category of the longest registry do not overflow, even in 32 bits."""
    counts = np.full(4096, 10**6, dtype=np.int32)
    assert participation_probability(counts, 20).tolist() == [20 / (4096 * 10**6)] * 4096


def test_categories_are_drawn_equally_often() -> None:
    """All non-empty categories send equally many clients: chi-square, both tails above 1e-4.

    The clients follow MNIST-10/1.5 (section 6.3), with the paper's thresholds.
    """
    rng, wanted = np.random.default_rng(2021), half_normal_proportions(10, 10.0)
    counts = client_distributions(NUM_CLIENTS, wanted, 1.5, rng)
    overall, slots = overall_registry(counts, Codebook((1, 2, 10)), {1: 0.7, 2: 0.1})
    probability = participation_probability(overall, NUM_PARTICIPANTS)
    assert probability.max() < 1.0, "no category may be capped, or fewer than K are expected"
    times = [
        (simulated_draws(7, str(client), 1, NUM_DRAWS // 20, 20) < probability[slot]).sum()
        for client, slot in enumerate(slots)
    ]
    assert sum(times) / NUM_DRAWS == pytest.approx(NUM_PARTICIPANTS, rel=0.02)
    filled = overall > 0
    drawn = np.bincount(slots, weights=times, minlength=overall.size)
    assert not drawn[~filled].any()
    mean = NUM_DRAWS * NUM_PARTICIPANTS / filled.sum()
    variance = mean * (1 - NUM_PARTICIPANTS / (filled.sum() * overall[filled]))
    statistic = ((drawn[filled] - mean) ** 2 / variance).sum()
    assert 1e-4 < chi2.sf(statistic, filled.sum()) < 1 - 1e-4
