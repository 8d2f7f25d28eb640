"""Tests of a node's session; the vectors have requests that are late or come twice."""

from protocol.nodes import federation, next_request, refuses, seal, set_policy

from dubhe_flwr.errors import MalformedMessageError, RefusedError, StaleMessageError
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


def test_an_alias_that_cannot_travel_is_refused() -> None:
    """A node with an empty name says so instead of sending it."""
    nodes = federation()
    set_policy(nodes, nodes.ids[0], alias="")
    refuses(nodes, nodes.ids[0], HELLO, MalformedMessageError, "An alias must have 1 to 256 bytes")


def test_the_last_64_epochs_are_remembered() -> None:
    """The memory has a fixed size, and forgets the oldest epoch first."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.JOIN)
    epochs = [bytes([number] * 16) for number in range(65)]
    for epoch in epochs:
        nodes.handle(node_id, {**request, "epoch": epoch})
    memory = nodes.session(node_id).memory
    assert memory.epochs == b"".join(epochs[1:])
    stale = {**request, "epoch": epochs[1]}
    refuses(nodes, node_id, stale, StaleMessageError, "already asked to join this epoch")
    nodes.handle(node_id, {**request, "epoch": epochs[0]})


def test_an_error_reveals_only_its_type() -> None:
    """Details of a failure, or its cause in a log, would make the node an oracle."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.REGISTER)
    spoilt = {**request, "key.sealed-key": bytes(80)}
    refusal = refuses(nodes, node_id, spoilt, RefusedError, r"^register failed: SealError\.$")
    assert (refusal.__cause__, refusal.__suppress_context__) == (None, True)
