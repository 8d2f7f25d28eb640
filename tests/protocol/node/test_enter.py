"""Tests of how a node joins an epoch; the vectors have how it makes keys and registers."""

from typing import Any

import pytest
from protocol.federation import joined, priced
from protocol.nodes import federation, public_key_of, set_policy

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.vaults import Seat
from dubhe_flwr.protocol.wire.messages import JoinStatus


def test_a_node_joins_with_a_fresh_key() -> None:
    """Key, labels and budgets belong to the epoch; only its identity outlasts it."""
    nodes = federation(registration_interval=1)
    nodes.play(1)
    node_id = nodes.ids[2]
    old = joined(nodes, node_id)
    set_policy(nodes, node_id, label_counts=lambda: [0, 0, 0, 3])
    reply = nodes.handle(node_id, nodes.until(Stage.JOIN, 2).fields[node_id])
    own = joined(nodes, node_id)
    assert reply["public-key"] == public_key_of(nodes, node_id)
    assert own.delivery_key != old.delivery_key
    assert (own.label_counts, own.registered) == ((0, 0, 0, 3), None)
    assert nodes.session(node_id).memory.epochs == old.epoch + own.epoch


@pytest.mark.parametrize(
    ("state", "reason"), [(b"odd", "not readable"), (bytes(8), "not what this node knows")]
)
def test_another_result_of_the_last_epoch_is_refused(state: bytes, reason: str) -> None:
    """The result must be readable, and equal the node's own if it settled in that epoch."""
    nodes = priced(registration_interval=1, num_participants=12)
    nodes.play(1)
    node_id, request = next(iter(nodes.until(Stage.REGISTER, 2).fields.items()))
    vault = joined(nodes, node_id).terms.vault
    sealed = vault.sealed_state(Seat(bytes(16), b"", None, state), b"")
    with pytest.raises(RefusedError, match=reason):
        nodes.handle(node_id, {**request, "state": sealed})
    nodes.handle(node_id, request)


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ({"willing": lambda _r: False}, JoinStatus.UNWILLING),
        ({"label_counts": lambda: [0, 0, 0, 0]}, JoinStatus.NO_DATA),
        ({"label_counts": lambda: 1 // 0}, JoinStatus.INVALID_LABEL_COUNTS),
        ({"min_cohort": 4}, JoinStatus.REFUSES_PARAMETERS),
    ],
)
def test_a_node_that_stays_out_keeps_nothing(policy: dict[str, Any], status: JoinStatus) -> None:
    """The reply has all fields except the classes; the node's memory holds no labels and no key."""
    nodes = federation()
    out, other = nodes.ids[4:6]
    set_policy(nodes, out, **policy)
    replies: Any = nodes.deliver(nodes.until(Stage.JOIN))
    assert replies[out]["status"] == status
    assert replies[other].keys() - replies[out].keys() == {"num-classes"}
    assert nodes.session(out).memory.joined is None
