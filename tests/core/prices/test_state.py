"""Tests of the state of prices: what nodes keep between the exchanges."""

from dataclasses import replace

import numpy as np
import pytest
from core.prices.populations import positions, skewed, summed

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState
from dubhe_flwr.core.prices.state import directions
from dubhe_flwr.errors import SettingsError

DESIGN = PriceDesign(5, 20.0)


def state_of(numbers: PriceNumbers, num_exchanges: int = 2) -> PriceState:
    """Return the state of an epoch after some exchanges."""
    clients = positions(skewed(60, numbers.num_classes, seed=1))
    state = PriceState.first(numbers)
    for _ in range(num_exchanges):
        state = DESIGN.advance(numbers, state, summed(numbers, state, clients), 60)
    return state


@pytest.mark.parametrize(
    "numbers", [PriceNumbers(3, 60), PriceNumbers(3, 60, 4.0), PriceNumbers(40, 60, 4.0)]
)
@pytest.mark.parametrize("num_exchanges", [0, 1, 3])
def test_floats_are_the_whole_state(numbers: PriceNumbers, num_exchanges: int) -> None:
    """They come back as the same state, and their number does not depend on it."""
    state = state_of(numbers, num_exchanges)
    values = state.as_floats()
    assert all(isinstance(value, float) and np.isfinite(value) for value in values)
    assert len(values) == len(PriceState.first(numbers).as_floats())
    assert PriceState.from_floats(numbers, values) == state
    assert PriceState.from_floats(numbers, list(values)) == state


def test_other_floats_are_refused() -> None:
    """More, fewer, or such as no state has."""
    numbers = PriceNumbers(3, 60)
    values = state_of(numbers).as_floats()
    for unfit in (values[:-1], (*values, 0.0)):
        with pytest.raises(SettingsError, match="are no state of prices"):
            PriceState.from_floats(numbers, unfit)
    for unknown in (float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="not finite"):
            PriceState.from_floats(numbers, (*values[:-1], unknown))


def test_what_is_not_supported_by_sums_is_reached_in_part() -> None:
    """Prices lie between the base, where V is met, and the point; kappa does too."""
    state = replace(
        PriceState.first(PriceNumbers(2, 9)),
        reach=0.25,
        shift=-0.5,
        base_kappa=1.0,
        kappa=3.0,
        base=(1.0, 0.0, 0.0),
        point=(2.5, 4.0, -4.0),
    )
    prices, kappa = state.prices()
    assert (prices.tolist(), kappa) == ([1.0, 1.0, -1.0], 1.5)


def test_the_position_is_the_weighted_distance_from_the_target() -> None:
    """In floats, from fixed point."""
    own = fixed_point_distribution([3, 1, 0])
    found = Position.of(own, [0.5, 0.25, 0.25], weight=2.0)
    assert found.x.tolist() == [0.5, 0.0, -0.5]
    assert (found.square, found.weight) == (0.5, 2.0)


def test_the_weight_above_the_mean_is_a_feature_where_nodes_differ_in_it() -> None:
    """Where all weigh the same there is none."""
    found = Position(np.array([0.5, -0.5]), 2.0)
    equal, unequal = (PriceState.first(PriceNumbers(2, 9, most)) for most in (1.0, 4.0))
    assert equal.features(found).tolist() == [0.5, -0.5]
    assert replace(unequal, mean_weight=1.5).features(found).tolist() == [0.5, -0.5, 0.5]


def test_probes_are_the_last_steps() -> None:
    """Above 32 classes the newest is the step to the point, apart from its mean over classes."""
    state = state_of(PriceNumbers(40, 60))
    step = np.subtract(state.point, state.base)[1:]
    step -= step.mean()
    newest = state.query().probes[:, 0]
    assert abs(newest @ step) == pytest.approx(np.linalg.norm(step), rel=1e-3)


def test_directions_are_orthonormal_and_sum_to_0_over_classes() -> None:
    """A direction in classes that all have in common tells clients not apart."""
    rows = np.random.default_rng(0).normal(size=(4, 9))
    found = directions(rows, num_classes=8, number=3)
    assert found.T @ found == pytest.approx(np.eye(3), abs=1e-3)
    assert found[:8].sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-3)
