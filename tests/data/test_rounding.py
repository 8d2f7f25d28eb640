"""Tests of rounding distributions to whole samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.data.rounding import controlled_rounding, largest_remainder

seeds = st.integers(0, 2**32 - 1)


def offsets_of(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return evenly spread offsets in random order."""
    return np.asarray((rng.permutation(rows) + 0.5) / rows)


@given(seed=seeds, classes=st.integers(1, 60), total=st.integers(0, 500))
def test_largest_remainder_is_nearest(seed: int, classes: int, total: int) -> None:
    """The total is met, and those with the largest remainders are rounded up, the others down."""
    exact = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3)) * total
    counts = largest_remainder(exact / max(total, 1), total)
    up = counts > np.floor(exact)
    assert counts.sum() == total
    assert np.all(np.abs(counts - exact) < 1)
    remainder = exact - np.floor(exact)
    assert remainder[up].min(initial=1.0) >= remainder[~up].max(initial=0.0) - 1e-9


@given(
    seed=seeds,
    rows=st.integers(1, 40),
    classes=st.integers(1, 12),
    num_samples=st.integers(1, 40),
    concentration=st.sampled_from([1e-3, 0.3, 100.0]),
)
def test_meets_all_totals(
    seed: int, rows: int, classes: int, num_samples: int, concentration: float
) -> None:
    """Rows and columns have the wanted totals and no count is negative, however skewed."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, concentration) + 1e-2, size=rows)
    totals = rng.multinomial(rows * num_samples, np.full(classes, 1 / classes))
    counts = controlled_rounding(shares, num_samples, totals, offsets_of(rng, rows))
    assert np.all(counts >= 0)
    assert np.all(counts.sum(axis=1) == num_samples)
    assert np.array_equal(counts.sum(axis=0), totals)


@given(seed=seeds, rows=st.integers(20, 60))
def test_moves_few_samples(seed: int, rows: int) -> None:
    """When the column totals fit the shares, hardly a count is off by more than a sample."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(8, 1.0), size=rows)
    totals = largest_remainder(shares.mean(axis=0), rows * 30)
    counts = controlled_rounding(shares, 30, totals, offsets_of(rng, rows))
    assert np.mean(np.abs(counts - 30 * shares) >= 1) < 0.02


def test_shares_are_kept_on_average() -> None:
    """Clients that are alike hold together what their shares say, whatever the others hold."""
    shares = np.repeat([[0.3, 0.7], [0.7, 0.3]], 500, axis=0)
    offsets = offsets_of(np.random.default_rng(0), 1000)
    counts = controlled_rounding(shares, 1, np.array([500, 500]), offsets)
    assert counts[:500].mean(axis=0) == pytest.approx([0.3, 0.7], abs=0.05)


def test_keeps_rare_classes() -> None:
    """A class of a tenth of a sample in each row is kept by every tenth row."""
    shares = np.tile([0.99, 0.01], (100, 1))
    offsets = offsets_of(np.random.default_rng(0), 100)
    counts = controlled_rounding(shares, 10, np.array([990, 10]), offsets)
    assert np.bincount(counts[:, 1]).tolist() == [90, 10]
