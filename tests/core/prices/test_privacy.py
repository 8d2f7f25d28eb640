"""Tests of the bound on what noisy sums reveal about one client."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dubhe_flwr.core.prices.privacy import DELTA, PrivacyBound, epsilon


@pytest.mark.parametrize(("num_sums", "num_classes", "sigma"), [(1, 2, 4.0), (5, 10, 1.0)])
def test_epsilon_is_the_best_of_all_renyi_orders(
    num_sums: int, num_classes: int, sigma: float
) -> None:
    """The closed form is the minimum over all Renyi orders, for two Gaussians."""

    def at(log_excess: float) -> float:
        order = 1.0 + np.exp(log_excess)
        divergence = order * num_sums / (2.0 * (sigma / num_classes**0.5) ** 2)
        return float(divergence + np.log(1.0 / DELTA) / (order - 1.0))

    best = minimize_scalar(at, bounds=(-10.0, 10.0), method="bounded").fun
    assert epsilon(num_sums, num_classes, sigma) == pytest.approx(best, rel=1e-6)


def test_the_budget_is_the_same_for_every_weight() -> None:
    """A heavy client enters fewer sums, and uses up more of its budget in a period."""
    bound = PrivacyBound.of(8, most_sums=64, num_slots=11, sigma=4.0, heaviest=1.5)
    assert bound.epoch == epsilon(18, 11, 4.0)
    assert bound.budget == epsilon(64, 11, 4.0)
