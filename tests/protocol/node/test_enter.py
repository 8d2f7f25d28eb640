"""Tests of how a node joins an epoch; the vectors have how it makes keys and registers."""

import pytest
from protocol.federation import joined, priced
from protocol.nodes import federation, public_key_of, set_policy

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.vaults import Seat


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
