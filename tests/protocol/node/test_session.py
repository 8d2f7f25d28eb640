"""Tests of a node's session; the vectors have requests that are late or come twice."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import epoch_of
from protocol.nodes import federation, next_request, refuses, seal

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.node.memory import Allowance
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import spend_day
from dubhe_flwr.protocol.wire.codec import Message
from dubhe_flwr.protocol.wire.messages import DetermineRequest, HelloRequest, OpenRequest

HELLO = seal(bytes(16), Stage.HELLO, 99, HelloRequest())
POLICY = NodePolicy(label_counts=list, alias="1", max_epochs_per_day=2, max_draws_per_day=10)


def test_a_greeting_does_not_affect_an_epoch() -> None:
    """A roll call in between is no step of the epoch; before any, it leaves no memory behind."""
    nodes = federation()
    nodes.handle(nodes.ids[3], HELLO)
    assert nodes.memories == {}
    node_id, request = next_request(nodes, Stage.REGISTER)
    kept = nodes.memories[node_id]
    nodes.handle(node_id, HELLO)
    assert nodes.memories[node_id] == kept
    nodes.handle(node_id, request)


def test_an_error_reveals_only_its_type() -> None:
    """Details of a failure, or its cause in a log, would make the node an oracle."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.REGISTER)
    spoilt = {**request, "sealed-key": bytes(80)}
    refusal = refuses(nodes, node_id, spoilt, RefusedError, r"^The key does not open, or is")
    assert (refusal.__cause__, refusal.__suppress_context__) == (None, True)


@pytest.mark.parametrize(
    ("stage", "body", "why"),
    [
        (Stage.DETERMINE, DetermineRequest(b"", (1,)), "No agent chooses among tries"),
        (Stage.OPEN, OpenRequest(0, b"\xff", b""), "not a member of a committee"),
    ],
)
def test_without_an_agent_or_a_committee_nobody_reads_a_sum(
    stage: Stage, body: Message, why: str
) -> None:
    """A server that asks anyway learns nothing."""
    nodes = federation(tries=1)
    nodes.play(1)
    asked = seal(epoch_of(nodes).identity, stage, 50, body)
    refuses(nodes, nodes.ids[0], asked, RefusedError, why)


@pytest.mark.parametrize(
    ("request_", "spent"),
    [({"num_epochs": 1}, Allowance(5, 2)), ({"num_draws": 6}, Allowance(5, 0, 5))],
)
def test_daily_limits_start_again_the_next_day(request_: Any, spent: Allowance) -> None:
    """A request refused today is answered tomorrow; a simulated node has no such limit."""
    with pytest.raises(RefusedError, match="has reached its owner's max_epochs_per_day"):
        spend_day(POLICY, spent, 5, **request_)
    tomorrow = spend_day(POLICY, spent, 6, **request_)
    assert tomorrow == spend_day(POLICY, Allowance(6), 6, **request_)
    simulated = replace(POLICY, simulated=True)
    assert spend_day(simulated, spent, 5, **request_).day == 5
