"""Tests of rounding distributions to whole samples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.data.rounding import controlled_rounding, largest_remainder

seeds = st.integers(0, 2**32 - 1)


def offsets_of(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return evenly spread offsets in random order."""
    return np.asarray((rng.permutation(rows) + 0.5) / rows)


@given(seed=seeds, classes=st.integers(1, 60), total=st.integers(0, 500))
def test_largest_remainder_is_nearest(seed: int, classes: int, total: int) -> None:
    """The total is met and every count is one of the two whole numbers beside its share."""
    shares = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3))
    counts = largest_remainder(shares, total)
    assert counts.sum() == total
    assert np.all(np.abs(counts - shares * total) < 1)


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


def test_keeps_rare_classes() -> None:
    """A class of a tenth of a sample in each row is kept by every tenth row."""
    shares = np.tile([0.99, 0.01], (100, 1))
    offsets = offsets_of(np.random.default_rng(0), 100)
    counts = controlled_rounding(shares, 10, np.array([990, 10]), offsets)
    assert np.bincount(counts[:, 1]).tolist() == [90, 10]
