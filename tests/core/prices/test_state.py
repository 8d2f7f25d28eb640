"""Tests of the price state, which nodes keep between sums and hand to new nodes."""

import numpy as np
import pytest
from core.prices.populations import Federation, skewed

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState
from dubhe_flwr.core.prices.state import MEMORY
from dubhe_flwr.errors import SettingsError


def after(num_sums: int, *, weighted: bool = False) -> Federation:
    """Return a federation after some sums."""
    weights = np.linspace(0.5, 1.5, 60) if weighted else None
    federation = Federation(PriceDesign(5, 20.0), skewed(60, 3, seed=1), weights)
    for _ in range(num_sums):
        federation.step()
    return federation


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_sums", [0, 1, 3])
def test_floats_hold_the_whole_state(num_sums: int, *, weighted: bool) -> None:
    """The floats restore the same state, and their number does not depend on it."""
    federation = after(num_sums, weighted=weighted)
    values = federation.state.as_floats()
    assert all(isinstance(value, float) and np.isfinite(value) for value in values)
    assert len(values) == len(PriceState.first(federation.numbers).as_floats())
    assert PriceState.from_floats(federation.numbers, list(values)) == federation.state


@pytest.mark.parametrize(("num_classes", "kilobytes"), [(10, 1.5), (52, 6), (100, 11.5)])
def test_a_state_is_small(num_classes: int, kilobytes: float) -> None:
    """A state takes a few kilobytes as doubles, so an agent can hand it to a new node."""
    state = PriceState.first(PriceNumbers(num_classes, 2000))
    assert len(state.as_floats()) * 8 < 1000 * kilobytes


def test_unfit_floats_are_refused() -> None:
    """Floats of the wrong number, or that no state has, are refused."""
    federation = after(2)
    values = federation.state.as_floats()
    unknown = [(*values[:-1], number) for number in (float("nan"), float("inf"), 1e300)]
    for unfit in (values[:-1], (*values, 0.0), *unknown):
        with pytest.raises(SettingsError, match="not a price state"):
            PriceState.from_floats(federation.numbers, unfit)


def test_the_latest_exchanges_are_kept() -> None:
    """The state keeps the latest exchanges, newest first, up to its memory."""
    state = PriceState.first(PriceNumbers(2, 9))
    assert state.exchanges() == []
    for number in range(1 + MEMORY + 2):
        state = state.with_exchange(np.array([number, 0.0]), 0.5)
    found = [means[0] for _, means, _ in state.exchanges()]
    assert found == list(range(MEMORY + 2, 2, -1))


def test_the_position_is_the_weighted_distribution() -> None:
    """A position holds the weighted distribution in floats, converted from fixed point."""
    found = Position.of(fixed_point_distribution([3, 1, 0]), weight=2.0)
    assert (found.labels.tolist(), found.weight) == ([1.5, 0.5, 0.0], 2.0)
