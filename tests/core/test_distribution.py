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
    expected = [float(Fraction(count, sum(counts))) for count in counts]
    assert label_distribution(counts).tolist() == expected


def test_label_distribution_of_many_clients() -> None:
    """Clients may lie along any leading axes, and no integer type overflows."""
    counts = np.full((2, 3, 4), 255, dtype=np.uint8)
    assert fixed_point_distribution(counts[0, 0]).tolist() == [2**18] * 4
    assert label_distribution(counts).tolist() == [[[0.25] * 4] * 3] * 2


@pytest.mark.parametrize(
    "counts",
    [
        [],
        np.zeros((0, 3)),
        [-2, 1],
        [[1, 2], [0, 0]],
        [[1, 2], [-1, 2]],
        [[1, 1], [1, float("nan")]],
        [[1, 1], [1, float("inf")]],
    ],
)
def test_unfit_label_counts_are_refused(counts: ArrayLike) -> None:
    """Empty, negative and non-finite counts are refused, even in a single row."""
    with pytest.raises(SettingsError, match="leave out clients without data"):
        label_distribution(counts)


def test_global_distribution_weighs_by_samples() -> None:
    """Each client counts by its number of samples, so a client without data does not count."""
    assert global_distribution([[30, 0], [0, 10], [0, 0]]).tolist() == [0.75, 0.25]


@given(counts=counts_of_a_client, total=st.integers(2**16, FIXED_POINT_SCALE))
@example(counts=[2**42 - 1], total=FIXED_POINT_SCALE)
@example(counts=[2**41, 2**41 - 1], total=FIXED_POINT_SCALE)
def test_fixed_point_is_the_second_implementations(counts: list[int], total: int) -> None:
    """Remainders, ties and the rounded square are equal to the second implementation's."""
    integers = fixed_point_distribution(counts, total)
    assert integers.dtype == np.int64
    assert integers.tolist() == reference.fixed_point(counts, total)
    assert with_square(integers).tolist() == reference.with_square(integers.tolist())


@pytest.mark.parametrize(
    "counts",  # the last one overflows: it sums to 1 in 64 bits
    [[], [0, 0], [3, -1], [2**41, 2**41], [*([2**62] * 4), 1]],
)
def test_unfit_counts_have_no_fixed_point(counts: list[int]) -> None:
    """Empty or negative counts and more samples than 64 bits can scale are refused."""
    with pytest.raises(SettingsError, match="fewer than 2"):
        fixed_point_distribution(counts)
