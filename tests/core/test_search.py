"""Tests of the exact search for thresholds."""

import numpy as np
import pytest

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.registration import check_thresholds
from dubhe_flwr.core.search import best_candidate, candidate_grid, search_contribution
from dubhe_flwr.errors import SettingsError


@pytest.mark.parametrize("reference_set", [(1, 2, 10), (1, 10), (1, 3, 26), (10,)])
def test_grid_holds_valid_thresholds(reference_set: tuple[int, ...]) -> None:
    """Every candidate is valid, unique, and within reach of some client."""
    codebook = Codebook(reference_set)
    grid = candidate_grid(codebook)
    assert len({tuple(candidate.values()) for candidate in grid}) == len(grid)
    assert len(grid) == 3 ** (len(reference_set) - 1)
    for candidate in grid:
        assert check_thresholds(codebook, candidate) == candidate
        assert all(size * share <= 1 for size, share in candidate.items())


def test_contribution_is_rounded_to_the_nearest() -> None:
    """A third of a unit rounds to 0 and two thirds to 1; no probability exceeds 1."""
    contribution = search_contribution([1, 2, FIXED_POINT_SCALE - 3], [1 / 3, 1.0])
    third = round(FIXED_POINT_SCALE / 3)
    assert contribution.dtype == np.int64
    assert contribution[0].tolist() == [0, 1, third - 1, third]
    assert contribution[1].tolist() == [1, 2, FIXED_POINT_SCALE - 3, FIXED_POINT_SCALE]


def test_candidates_compare_by_distance_not_by_total() -> None:
    """Fewer participants are no advantage; ties go to the first, without rounding."""
    assert best_candidate([[2, 0, 2], [30, 20, 50], [300, 200, 500]]) == 1
    assert best_candidate([[3, 1, 2, 6], [1, 2, 3, 6], [300, 100, 200, 600]]) == 0
    assert type(best_candidate([[1, 1, 2]])) is int


def test_candidate_without_participants_is_refused() -> None:
    """A sum over nobody is an error, not a division by zero."""
    with pytest.raises(SettingsError, match="no participants"):
        best_candidate([[1, 1, 2], [0, 0, 0]])
