"""Tests of when a node is asked to be a member of the committee in vain."""

from protocol.nodes import federation, next_request, refuses, seal

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.messages import OpenRequest


def test_without_a_committee_nobody_opens_a_sum() -> None:
    """The agent's key opens the sums of such an epoch."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.SETTLE)
    asked = seal(request["epoch"], Stage.OPEN, 50, OpenRequest(0, b"\xff", b""))  # type: ignore[arg-type]
    refuses(nodes, node_id, asked, RefusedError, "not a member of a committee")
