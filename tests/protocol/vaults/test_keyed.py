"""Tests of what openers sign; `adversary` has whole attacks."""

from typing import Any

import pytest
from adversary.test_committee import KEYS, TRUSTED, flipped, vault_of
from adversary.test_committee import federation as with_committee
from protocol.nodes import pinned_federation
from protocol.server import alter, report_of

from dubhe_flwr.he.signing import SIGNATURE_BYTES, PinnedKeys
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.vaults.keyed import told_to_all
from dubhe_flwr.protocol.wire.messages import AppointRequest


@pytest.mark.parametrize(
    ("with_nodes", "place", "field", "reason"),
    [
        (with_committee, -1, "signatures", "UntrustedError"),
        (pinned_federation, 0, "signatures", "UntrustedError"),
        (with_committee, 1, "public", "key of another opener than the first"),
    ],
)
def test_an_opener_that_lies_is_replaced(
    with_nodes: Any, place: int, field: str, reason: str
) -> None:
    """The server notices a wrong signature, or a second key, before any node has to be told."""
    nodes = with_nodes()
    batch = nodes.until(Stage.APPOINT)
    lie = lambda reply: {**reply, field: flipped(reply[field] or bytes(32))}  # noqa: E731
    alter(nodes, Stage.APPOINT, lie, [list(batch.requests)[place]])
    plan = nodes.finish(batch)
    assert report_of(plan, Stage.APPOINT).dropped == {reason: 1}
    assert report_of(plan, Stage.APPOINT, 1).dropped == {}
    assert (plan.num_registered, nodes.errors) == (len(nodes.ids), [])


def test_a_member_signs_for_no_node_with_the_key_of_a_node_that_colludes_with_it() -> None:
    """That key may not be a candidate, so the node would refuse, and be left out by choice."""
    nodes = with_committee()
    batch = nodes.until(Stage.APPOINT)
    member, request = list(batch.requests.items())[1]
    assert isinstance(request, AppointRequest)
    key, told = request.roster.keys[-1], told_to_all(request, b"", None)
    statement = vault_of(nodes).statement(batch.header.epoch, told, key, 1)
    signature = PinnedKeys(KEYS[-2], TRUSTED).sign(statement)

    def lie(reply: Any) -> Any:
        return {**reply, "signatures": reply["signatures"][:-SIGNATURE_BYTES] + signature}

    alter(nodes, Stage.APPOINT, lie, [member])
    plan = nodes.finish(batch)
    assert report_of(plan, Stage.APPOINT).dropped == {"UntrustedError": 1}
    assert (plan.num_registered, nodes.errors) == (len(nodes.ids), [])
