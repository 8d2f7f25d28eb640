"""Tests of the participation probability, exact and statistical."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from dubhe_flwr.core import (
    Codebook,
    average_emd,
    global_distribution,
    imbalance_ratio,
    label_distribution,
    overall_registry,
    participation_probability,
    seeded_draws,
)
from dubhe_flwr.data import client_distributions, half_normal_proportions

NUM_CLIENTS, NUM_PARTICIPANTS, NUM_DRAWS = 1000, 20, 10_000

Registered = tuple[NDArray[np.int64], NDArray[np.int64]]
registries = st.lists(st.integers(0, 10_000), min_size=1, max_size=60).filter(any)


@given(counts=registries, num_participants=st.integers(1, 2000))
def test_probability_is_that_of_equation_6(counts: list[int], num_participants: int) -> None:
    """P = min(1, K / (R_A(u) ||R_A||_0)) in each filled category, and 0 in an empty one."""
    num_filled = sum(count > 0 for count in counts)
    expected = [
        float(min(Fraction(1), Fraction(num_participants, count * num_filled))) if count else 0.0
        for count in counts
    ]
    assert participation_probability(counts, num_participants).tolist() == expected


def test_empty_registry_has_no_participants() -> None:
    """Nobody can take part in a federation in which nobody is registered."""
    assert participation_probability([0, 0, 0], 20).tolist() == [0.0, 0.0, 0.0]


def test_probability_of_a_million_clients() -> None:
    """Counts of a million clients in the longest registry do not overflow, in 32 bits neither."""
    counts = np.full(4096, 10**6, dtype=np.int32)
    assert participation_probability(counts, 20).tolist() == [20 / (4096 * 10**6)] * 4096


@pytest.fixture(scope="module")
def label_counts() -> NDArray[np.int64]:
    """Return the clients of MNIST-10/1.5: N=1000, half-normal rho=10, EMD_avg=1.5 (section 6.3)."""
    counts = client_distributions(
        NUM_CLIENTS, half_normal_proportions(10, 10.0), 1.5, np.random.default_rng(2021)
    )
    p_g = global_distribution(counts)
    assert average_emd(label_distribution(counts), p_g) == pytest.approx(1.5, abs=0.02)
    assert imbalance_ratio(p_g) == pytest.approx(10, abs=0.1)
    return counts


@pytest.fixture(scope="module")
def overall_and_slots(label_counts: NDArray[np.int64]) -> Registered:
    """Register the clients with the thresholds of the paper."""
    return overall_registry(label_counts, Codebook((1, 2, 10)), {1: 0.7, 2: 0.1})


@pytest.fixture(scope="module")
def decisions(overall_and_slots: Registered) -> NDArray[np.bool_]:
    """Let every client draw ten thousand times: shape (N, NUM_DRAWS)."""
    overall, slots = overall_and_slots
    probability = participation_probability(overall, NUM_PARTICIPANTS)
    assert probability.max() < 1.0, "no category may be capped, or fewer than K are expected"
    return np.array(
        [
            seeded_draws(7, str(client), 1, NUM_DRAWS // 20, 20).ravel() < probability[slot]
            for client, slot in enumerate(slots)
        ]
    )


def test_mean_number_of_volunteers(decisions: NDArray[np.bool_]) -> None:
    """Before any filling, K clients volunteer on average: within 2 %, nine standard errors."""
    assert decisions.sum(axis=0).mean() == pytest.approx(NUM_PARTICIPANTS, rel=0.02)


def test_categories_are_drawn_equally_often(
    decisions: NDArray[np.bool_], overall_and_slots: Registered
) -> None:
    """All non-empty categories send equally many clients, up to their binomial deviations.

    The sum over the categories of squared deviations, each divided by the binomial variance
    ``draws * R_A(u) * P (1 - P)``, is chi-square; both tails above 1e-4.
    """
    overall, slots = overall_and_slots
    filled = overall > 0
    drawn = np.bincount(slots, weights=decisions.sum(axis=1), minlength=overall.size)
    assert not drawn[~filled].any()
    mean = NUM_DRAWS * NUM_PARTICIPANTS / filled.sum()
    variance = mean * (1 - NUM_PARTICIPANTS / (filled.sum() * overall[filled]))
    statistic = ((drawn[filled] - mean) ** 2 / variance).sum()
    assert 1e-4 < chi2.sf(statistic, filled.sum()) < 1 - 1e-4


def test_clients_and_tries_are_independent(
    decisions: NDArray[np.bool_], overall_and_slots: Registered
) -> None:
    """The number of volunteers varies from try to try as that of independent clients does.

    Its variance is ``sum_k P_k (1 - P_k)``; clients that shared random numbers would bring it to
    many times that. Consecutive tries are uncorrelated. Bounds: five standard errors.
    """
    overall, slots = overall_and_slots
    probability = participation_probability(overall, NUM_PARTICIPANTS)[slots]
    volunteers = decisions.sum(axis=0)
    standard_error = np.sqrt(2 / NUM_DRAWS)
    expected_variance = (probability * (1 - probability)).sum()
    assert volunteers.var() / expected_variance == pytest.approx(1, abs=5 * standard_error)
    correlation = np.corrcoef(volunteers[:-1], volunteers[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(NUM_DRAWS)
