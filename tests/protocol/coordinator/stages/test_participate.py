"""Tests of the stage `participate`: the nodes draw, and say whether they are willing."""

from typing import Any

import pytest
from protocol.server import federation

from dubhe_flwr.errors import QuorumError


def test_the_error_counts_nodes_that_eligible_left_out() -> None:
    """The error counts these nodes even if the round was already drawn."""
    nodes = federation(rounds_per_draw=2)
    nodes.play(1)
    match = r"2 nodes .*willing.* \(connected: 11, left out by eligible\(\): 9\)"
    with pytest.raises(QuorumError, match=match):
        nodes.play(2, nodes.ids[:11], nodes.ids[9:])


@pytest.mark.parametrize(
    ("limit", "last"), [({"max_draws_per_day": 5}, 2), ({"max_epochs_per_day": 1}, 3)]
)
def test_reaching_a_daily_limit_does_not_end_the_epoch(limit: Any, last: int) -> None:
    """The message says whose limit it is; a round with random clients uses none of it."""
    settings: Any = {"policy": {"simulated": False, **limit}, "registration_interval": 2}
    nodes = federation(**settings)
    nodes.rounds(1, last - 1)
    with pytest.raises(QuorumError, match=r"owner's daily limit at .*: 12\); ask the nodes' own"):
        nodes.play(last)
    assert nodes.stages().count("appoint") == 1
    by_chance = federation(**settings, on_failure="random").rounds(1, 4)
    assert [len(plan.participants) for plan in by_chance] == [4] * 4
