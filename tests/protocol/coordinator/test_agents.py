"""Tests of whom to ask next, and of what may still be spent."""

import pytest

from dubhe_flwr.protocol.coordinator.agents import Agents, Budget


@pytest.mark.parametrize(
    ("attempts", "asked"), [(1, [5]), (2, [5, 4]), (3, [5, 4, 6]), (9, [5, 4, 6])]
)
def test_agents_are_asked_in_order_and_not_for_ever(attempts: int, asked: list[int]) -> None:
    """Until so many were asked, or all."""
    agents, found = Agents((5, 4, 6), attempts), []
    while not agents.is_exhausted:
        found.append(agents.next)
        agents = agents.asked()
    assert found == asked
    assert agents.num_asked == len(asked)


def test_nobody_may_be_asked() -> None:
    """Then they are exhausted from the start."""
    assert Agents((), 3).is_exhausted
    assert Agents((5,), 0).is_exhausted


def test_what_is_spent_adds_up() -> None:
    """Draws for all, sums for each agent; the budget before stays as it was."""
    before = Budget(2, {7: 3})
    after = before.with_draws(4).with_sums(7, 2).with_sums(8, 1)
    assert after == Budget(6, {7: 5, 8: 1})
    assert (before, before.sums_of(7), before.sums_of(8)) == (Budget(2, {7: 3}), 3, 0)
