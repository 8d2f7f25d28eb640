"""Tests of label distributions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from vectors import reference

from dubhe_flwr.core.distribution import (
    FIXED_POINT_SCALE,
    distance_to_uniform,
    fixed_point_distribution,
    global_distribution,
    label_distribution,
    with_square,
)
from dubhe_flwr.errors import SettingsError

counts_of_a_client = st.lists(
    st.one_of(st.integers(0, 3), st.integers(0, 2**35)), min_size=1, max_size=62
).filter(any)


@given(counts=counts_of_a_client)
def test_label_distribution_is_the_share_of_each_class(counts: list[int]) -> None:
    """Each share is the class's count over the total, rounded once."""
    shares = label_distribution(counts)
    assert shares.dtype == np.float64
    assert shares.tolist() == [float(Fraction(count, sum(counts))) for count in counts]
    assert shares.sum() == pytest.approx(1.0)


def test_label_distribution_of_many_clients() -> None:
    """Clients may lie along any leading axes, and no integer type overflows."""
    counts = np.full((2, 3, 4), 255, dtype=np.uint8)
    assert fixed_point_distribution(counts[0, 0]).tolist() == [2**18] * 4
    assert label_distribution(counts).tolist() == [[[0.25] * 4] * 3] * 2


@pytest.mark.parametrize(
    "counts",
    [
        [], [[]], np.zeros((0, 3)), [0, 0], [-1, 2], [-2, 1], [[1, 2], [0, 0]], [[1, 2], [-1, 2]],
        [float("nan"), 1], [[1, 1], [1, float("nan")]], [float("inf"), 1],
        [[1, 1], [1, float("inf")]],
    ],
)  # fmt: skip
def test_unfit_label_counts_are_refused(counts: ArrayLike) -> None:
    """Empty, negative and non-finite counts are refused, even in a single row."""
    with pytest.raises(SettingsError, match="leave out clients without data"):
        label_distribution(counts)


def test_global_distribution_weighs_by_samples() -> None:
    """Each client counts by its number of samples, so a client without data does not count."""
    assert global_distribution([[30, 0], [0, 10], [0, 0]]).tolist() == [0.75, 0.25]
    with pytest.raises(SettingsError):
        global_distribution([[0, 0], [0, 0]])


@given(num_classes=st.integers(2, 100))
def test_range_of_the_distance_to_uniform(num_classes: int) -> None:
    """The distance is 0 for uniform data and 2 (C - 1) / C for a single class."""
    assert distance_to_uniform(np.full(num_classes, 1 / num_classes)) == pytest.approx(0)
    farthest = distance_to_uniform(np.eye(num_classes)[0])
    assert farthest == pytest.approx(2 * (num_classes - 1) / num_classes)


@given(counts=counts_of_a_client, total=st.integers(2**16, FIXED_POINT_SCALE))
@example(counts=[2**42 - 1], total=FIXED_POINT_SCALE)
@example(counts=[2**41, 2**41 - 1], total=FIXED_POINT_SCALE)
def test_fixed_point_distribution_is_the_largest_remainder(counts: list[int], total: int) -> None:
    """The integers sum to S; each is within one of its share, largest remainders rounded up."""
    integers = fixed_point_distribution(counts, total)
    assert integers.dtype == np.int64
    assert integers.tolist() == reference.fixed_point(counts, total)
    assert integers.sum() == total
    exact = np.array([float(Fraction(count * total, sum(counts))) for count in counts])
    assert np.abs(integers - exact).max() < 1


@pytest.mark.parametrize(
    "counts",  # the last one overflows: it sums to 1 in 64 bits
    [[], [0, 0], [3, -1], [-3, 1], [2**42], [2**41, 2**41], [*([2**62] * 4), 1]],
)
def test_unfit_counts_have_no_fixed_point(counts: list[int]) -> None:
    """Empty or negative counts and more samples than 64 bits can scale are refused."""
    with pytest.raises(SettingsError, match="fewer than 2"):
        fixed_point_distribution(counts)


@given(counts=counts_of_a_client, total=st.integers(2**16, FIXED_POINT_SCALE))
def test_the_square_follows_the_distribution(counts: list[int], total: int) -> None:
    """The square is exact to the nearest unit, and largest for a single class."""
    fixed = fixed_point_distribution(counts, total)
    with_it = with_square(fixed).tolist()
    assert with_it == reference.with_square(fixed.tolist())
    assert total // len(counts) - 1 <= with_it[-1] <= total
