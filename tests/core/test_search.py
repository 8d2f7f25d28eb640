"""Tests of the exact search for thresholds."""

import pytest

from dubhe_flwr.core.search import best_candidate
from dubhe_flwr.errors import SettingsError


def test_candidates_compare_by_distance_not_by_total() -> None:
    """Fewer participants are no advantage; ties go to the first, without rounding."""
    assert best_candidate([[2, 0, 2], [30, 20, 50], [300, 200, 500]]) == 1
    assert best_candidate([[0, 0, 3, 3], [0, 3, 0, 3], [0, 0, 300, 300]]) == 0
    assert type(best_candidate([[1, 1, 2]])) is int


def test_candidate_without_participants_is_refused() -> None:
    """A sum over nobody is an error, not a division by zero."""
    with pytest.raises(SettingsError, match="no participants"):
        best_candidate([[1, 1, 2], [0, 0, 0]])
