"""Tests of greedy selection against a literal implementation."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.distribution import label_distribution
from dubhe_lab.baselines.oracle import greedy_selection

TOLERANCE = 1e-12


def divergence(members: list[list[float]]) -> float:
    """Return KL(p || p_u) for the sum of some rows, term by term."""
    total = [sum(of_class) for of_class in zip(*members, strict=True)]
    shares = [number / sum(total) for number in total]
    return float(sum(share * log(share * len(shares)) for share in shares if share > 0))


@pytest.mark.parametrize("by_counts", [False, True])
@given(
    seed=st.integers(0, 2**32),
    num_clients=st.integers(1, 12),
    num_classes=st.integers(1, 6),
    data=st.data(),
)
def test_each_choice_is_the_best_remaining_client(
    by_counts: bool, seed: int, num_clients: int, num_classes: int, data: st.DataObject
) -> None:
    """After a random first client, no other free client would bring the sum closer to uniform."""
    counts = np.random.default_rng(seed).integers(0, 9, (num_clients, num_classes))
    counts[:, 0] += counts.sum(axis=1) == 0
    rows = (counts if by_counts else label_distribution(counts)).tolist()
    number = data.draw(st.integers(1, num_clients))
    chosen = greedy_selection(rows, number, np.random.default_rng(seed)).tolist()
    assert chosen[0] == np.random.default_rng(seed).integers(num_clients)
    assert len(set(chosen)) == len(chosen) == number
    for size in range(1, number):
        before = [rows[row] for row in chosen[:size]]
        best = inf
        for row in set(range(num_clients)) - set(chosen[:size]):
            best = min(best, divergence([*before, rows[row]]))
        assert divergence([*before, rows[chosen[size]]]) <= best + TOLERANCE


def test_ties_go_to_the_lower_index() -> None:
    """Ties go to the lower index."""
    chosen = greedy_selection([[1, 0], [1, 0], [0, 1], [0, 1]], 3, np.random.default_rng(0))
    assert chosen.tolist() == [3, 0, 1]
