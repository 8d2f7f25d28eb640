"""Tests of the measures of skew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import global_distribution, label_distribution
from dubhe_lab.data.measures import average_emd, coverage, imbalance_ratio


@st.composite
def federations(draw: st.DrawFn) -> NDArray[np.int64]:
    """Draw label counts of shape (N, C)."""
    num_classes = draw(st.integers(2, 10))
    row = st.lists(st.integers(0, 100), min_size=num_classes, max_size=num_classes).filter(any)
    return np.array(draw(st.lists(row, min_size=1, max_size=10)))


@given(counts=federations())
def test_average_emd_is_between_0_and_2(counts: NDArray[np.int64]) -> None:
    """EMD_avg is the mean of the clients' 1-norms, within the paper's range of 0 to 2."""
    p_l, p_g = label_distribution(counts), global_distribution(counts)
    emd = average_emd(p_l, p_g)
    assert 0 <= emd <= 2
    assert emd == pytest.approx(np.mean([np.linalg.norm(row - p_g, ord=1) for row in p_l]))
    assert average_emd(np.vstack([p_l, p_l]), p_g) == pytest.approx(emd)


@pytest.mark.parametrize(
    ("distribution", "rho"),
    [([0.2, 0.2, 0.2], 1.0), ([100, 1000, 10], 100.0), ([0.5, 0.5, 0.0], np.inf), ([0, 0], np.inf)],
)
def test_imbalance_ratio(distribution: list[float], rho: float) -> None:
    """Rho is the largest class over the smallest, and infinite if a class is empty."""
    assert imbalance_ratio(distribution) == rho


def test_coverage_counts_each_client_once() -> None:
    """Coverage is the share of clients ever selected, given as any iterables."""
    assert coverage([], num_clients=5) == 0.0
    assert coverage(iter([(3, 1), {1}, np.array([3, 1])]), num_clients=5) == 0.4
