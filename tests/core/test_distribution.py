"""Tests of label distributions."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dubhe_flwr.core.distribution import (
    fixed_point_distribution,
    global_distribution,
    label_distribution,
)
from dubhe_flwr.errors import SettingsError


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


@pytest.mark.parametrize(
    "counts",  # the last one overflows: it sums to 1 in 64 bits
    [[], [0, 0], [3, -1], [2**41, 2**41], [*([2**62] * 4), 1]],
)
def test_unfit_counts_have_no_fixed_point(counts: list[int]) -> None:
    """Empty or negative counts and more samples than 64 bits can scale are refused."""
    with pytest.raises(SettingsError, match="fewer than 2"):
        fixed_point_distribution(counts)
