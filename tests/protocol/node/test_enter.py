"""Tests of the result of the last epoch, which a node checks; the vectors have the rest."""

import pytest
from protocol.federation import joined, priced

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.vaults import Seat


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
