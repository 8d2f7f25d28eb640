"""Tests of Newton's method and of the synthetic clients."""

import numpy as np
import pytest

from dubhe_flwr.core.prices.newton import Floats, minimum
from dubhe_flwr.core.prices.state import Exchange
from dubhe_flwr.core.prices.synthetic import fitted, synthetic_clients


def test_newton_ends_where_no_step_helps() -> None:
    """If every step leads uphill, as rounding may have it, the search hardly moves, and ends."""

    def misleading(values: Floats) -> tuple[float, Floats, Floats]:
        return float(values.sum()), -np.ones_like(values), np.ones_like(values)

    found = minimum(np.eye(2), misleading, np.zeros(2), np.full(2, 1e-3), np.zeros(2), 1.0)
    assert np.abs(found).max() < 1e-3


def opening(labels: list[float], square: float) -> Floats:
    """Return the opening of a state without noise."""
    return np.array([*labels, square, 1.0, 0.0])


@pytest.mark.parametrize("square", [0.4, 0.6, 0.95])
def test_synthetic_clients_fit_the_opening(square: float) -> None:
    """Their mean labels and squares equal the real clients', to less than a hundredth."""
    labels = [0.5, 0.3, 0.2]
    found = synthetic_clients(opening(labels, square), 1000, 1.0)
    assert found.shares.sum() == pytest.approx(1.0, abs=0.003)
    assert found.shares @ found.labels == pytest.approx(labels, abs=0.003)
    assert found.shares @ (found.labels**2).sum(axis=1) == pytest.approx(square, abs=0.008)
    assert found.labels.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("variance", [0.0, 100.0])
def test_exchanges_are_fitted_as_far_as_noise_allows(variance: float) -> None:
    """Without noise the sums are matched; with noise the shares stay closer to the old ones."""
    clients = synthetic_clients(opening([0.5, 0.5], 0.75), 1000, 1.0)
    chances = 1.0 / (1.0 + np.exp(2.0 - clients.labels[:, 0]))
    means = np.array([0.09, 0.06, 0.15])
    before = (clients.shares * chances) @ clients.labels
    found = fitted(clients, [chances], [Exchange(np.zeros(3), means, variance)], 1000, 150.0)
    after = (found.shares * chances) @ found.labels
    missed = np.abs(after - means[:2]).max()
    assert missed < (0.0005 if variance == 0.0 else 0.5 * np.abs(before - means[:2]).max())
    assert (missed > 0.0005) == (variance > 0.0)
