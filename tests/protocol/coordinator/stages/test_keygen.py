"""Tests of the stage `keygen`: an agent makes the key of the epoch."""

from typing import Any

import pytest
from protocol.federation import epoch_of
from protocol.server import PLAIN, agents_in_turn, alter, altered, asked, federation, lost

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he import Unencrypted
from dubhe_flwr.protocol.wire.messages import RegisterRequest


@pytest.mark.parametrize(("attempts", "number"), [(1, 1), (3, 3), (50, 12)])
def test_agents_are_not_asked_for_ever(attempts: int, number: int) -> None:
    """After so many attempts, or when every node was asked, the round is given up."""
    nodes = federation(agent_attempts=attempts)
    sentence = f"{number} agents in turn made no key; look at their logs or raise agent_attempts"
    with altered(nodes, "keygen", lost), pytest.raises(QuorumError, match=sentence):
        nodes.play(1)
    assert asked(nodes, "keygen") == agents_in_turn(nodes, purpose="keygen")[:number]
    assert len(nodes.play(2).participants) == 4


def test_an_agent_that_delivers_no_key_costs_no_run() -> None:
    """Where the sealed keys open for nobody, another agent is asked; then nobody is left."""
    nodes = federation(agent_attempts=2)
    first, second, *_ = agents_in_turn(nodes, purpose="keygen")

    def garble(reply: Any) -> Any:
        return {**reply, "sealed-keys": bytes(len(reply["sealed-keys"]))}

    alter(nodes, "keygen", garble, [first])
    plan = nodes.play(1)
    assert asked(nodes, "keygen") == [first, second]
    assert (plan.num_registered, len(plan.participants)) == (12, 4)
    assert plan.notes == ("The key of an agent did not open; another one is asked.",)
    nodes = federation(agent_attempts=2)
    alter(nodes, "keygen", garble)
    with pytest.raises(QuorumError, match="0 nodes are registered"):
        nodes.play(1)


def test_without_encryption_nobody_makes_a_key() -> None:
    """Nodes of a simulation are sent none."""
    nodes = federation(**PLAIN)
    batch = nodes.until("register")
    assert set(batch.requests.values()) == {RegisterRequest()}
    assert asked(nodes, "keygen") == []
    nodes.play(2)
    assert isinstance(epoch_of(nodes).public_key, Unencrypted)
