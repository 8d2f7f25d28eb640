"""Tests of Newton's method; the minima that it finds are tested with prices as a whole."""

import numpy as np

from dubhe_flwr.core.prices.newton import Floats, Problem


def test_newton_ends_where_no_step_helps() -> None:
    """If every step leads uphill, as rounding may have it, the search hardly moves, and ends."""

    def misleading(values: Floats) -> tuple[Floats, Floats, Floats]:
        return values, -np.ones_like(values), np.ones_like(values)

    costs, shares, ridge = np.zeros(2), np.ones(2), np.full(2, 1e-3)
    problem = Problem(np.eye(2), costs, shares, misleading, linear=np.zeros(2), ridge=ridge)
    found = problem.minimum(np.zeros(2), reach=1.0)
    assert np.abs(found).max() < 1e-3
