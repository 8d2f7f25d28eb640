"""Tests of the state of prices: what nodes keep between sums, and hand to new nodes."""

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
def test_floats_are_the_whole_state(num_sums: int, *, weighted: bool) -> None:
    """They come back as the same state, and their number does not depend on it."""
    federation = after(num_sums, weighted=weighted)
    values = federation.state.as_floats()
    assert all(isinstance(value, float) and np.isfinite(value) for value in values)
    assert len(values) == len(PriceState.first(federation.numbers).as_floats())
    assert PriceState.from_floats(federation.numbers, list(values)) == federation.state


@pytest.mark.parametrize(("num_classes", "kilobytes"), [(10, 1.5), (52, 6), (100, 11.5)])
def test_a_state_is_small(num_classes: int, kilobytes: float) -> None:
    """As doubles it takes a few kilobytes, which an agent can hand to a new node."""
    state = PriceState.first(PriceNumbers(num_classes, 2000))
    assert len(state.as_floats()) * 8 < 1000 * kilobytes


def test_other_floats_are_refused() -> None:
    """More, fewer, or such as no state has."""
    federation = after(2)
    values = federation.state.as_floats()
    unknown = [(*values[:-1], number) for number in (float("nan"), float("inf"), 1e300)]
    for unfit in (values[:-1], (*values, 0.0), *unknown):
        with pytest.raises(SettingsError, match="no state of prices"):
            PriceState.from_floats(federation.numbers, unfit)


def test_the_latest_exchanges_are_kept() -> None:
    """Newest first, and no more than the memory holds."""
    state = PriceState.first(PriceNumbers(2, 9))
    assert state.exchanges() == []
    for number in range(1 + MEMORY + 2):
        state = state.with_exchange(np.array([number, 0.0]), 0.5)
    found = [means[0] for _, means, _ in state.exchanges()]
    assert found == list(range(MEMORY + 2, 2, -1))


def test_the_position_is_the_weighted_distribution() -> None:
    """In floats, from fixed point."""
    found = Position.of(fixed_point_distribution([3, 1, 0]), weight=2.0)
    assert (found.labels.tolist(), found.weight) == ([1.5, 0.5, 0.0], 2.0)
