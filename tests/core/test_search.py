"""Tests of the exact search for thresholds."""

from dubhe_flwr.core.search import best_candidate


def test_candidates_compare_by_distance_not_by_total() -> None:
    """Fewer participants are no advantage; ties go to the first, without rounding."""
    assert best_candidate([[2, 0, 2], [30, 20, 50], [300, 200, 500]]) == 1
    assert best_candidate([[0, 0, 3, 3], [0, 3, 0, 3], [0, 0, 300, 300]]) == 0
    assert type(best_candidate([[1, 1, 2]])) is int
