"""Tests of a node's session; the vectors have requests that are late or come twice."""

from protocol.nodes import federation, next_request, refuses, seal

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.messages import HelloRequest

HELLO = seal(bytes(16), Stage.HELLO, 99, HelloRequest())


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
