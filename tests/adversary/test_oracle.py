"""A server uses a node to decrypt: it forges sums and learns from the node's answers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, joined
from protocol.nodes import (
    asked_to_settle,
    federation,
    next_request,
    refuses,
    seal,
    secret_prime,
    slots_of,
    with_slots,
)

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.round import settled
from dubhe_flwr.protocol.wire.messages import ParticipateRequest

INVALID_SUM = r"^The sum is not valid\.$"
NOT_SETTLED = "too few sums of this registration period, or refused one"
DRAW = ParticipateRequest(1, 1, 1)
Nodes = Federation[CoordinatorState]
Change = Callable[[Nodes, int, Fields, Any], Any]


def multiple_of_a_prime(nodes: Nodes, node_id: int, request: Any, _slots: Any) -> Fields:
    """Return a ciphertext whose decryption would reveal the key."""
    prime = secret_prime(nodes, node_id)
    return {**request, "rule-sum.sums": prime.to_bytes(len(request["rule-sum.sums"]), "big")}


FORGED: list[tuple[int, Change]] = [
    *((exchange, multiple_of_a_prime) for exchange in (0, 1)),
    *((exchange, lambda n, i, r, s: with_slots(n, i, r, s * 0)) for exchange in (0, 1)),
    (0, lambda n, _i, r, _s: {**r, "rule-sum.num-clients": len(n.ids) - 1}),
]
"""Some forged requests; the vectors have all that a node refuses."""


@pytest.mark.parametrize(("exchange", "forge"), FORGED)
def test_a_forged_sum_ends_the_epoch_for_the_node(exchange: int, forge: Change) -> None:
    """The server sends any ciphertext as the sum: one refusal reports it, and the epoch is over."""
    nodes, node_id, honest = asked_to_settle(exchange)
    forged = forge(nodes, node_id, honest, slots_of(nodes, node_id, honest))
    refuses(nodes, node_id, forged, RefusedError, INVALID_SUM)
    with pytest.raises(RefusedError):
        nodes.handle(node_id, forged)
    with pytest.raises(RefusedError, match=NOT_SETTLED):
        settled(joined(nodes, node_id))  # so it cannot be an agent either
    for request in (honest, forged):
        later = {**request, "sequence": 50}
        refuses(nodes, node_id, later, RefusedError, "A sum of this .* was refused")
    draw = seal(nodes.session(node_id).memory.epoch, Stage.PARTICIPATE, 50, DRAW)
    refuses(nodes, node_id, draw, RefusedError, NOT_SETTLED)


def test_of_many_forged_sums_a_node_reads_the_first() -> None:
    """Each sum is nine times one client, so the server would learn where each client is."""
    nodes = federation()
    node_id, request = next_request(nodes, Stage.SETTLE)
    width = len(slots_of(nodes, node_id, request))
    first, *others = (
        {**with_slots(nodes, node_id, request, slots), "sequence": sequence}
        for sequence, slots in enumerate(9 * np.eye(width, dtype=int), start=100)
    )
    nodes.handle(node_id, first)
    for forged in others:
        refuses(nodes, node_id, forged, RefusedError, "needs no further sum")


@pytest.mark.parametrize("exchange", [0, 1])
def test_too_few_or_too_many_clients_cost_nothing(exchange: int) -> None:
    """Such a sum is refused before it is decrypted, so the honest sum still counts.

    A later sum covers no more clients than the first: here, a node was lost before it.
    """
    nodes = federation(thresholds="search")
    replies = nodes.deliver(nodes.until(Stage.REGISTER))
    del replies[nodes.ids[-1]]
    batch: Any = nodes.step(replies)
    if exchange:
        batch = nodes.step(nodes.deliver(batch))
    node_id, request = next(iter(batch.fields.items()))
    for number in (2, 10 - exchange, 21, 2**62):
        forged = {**request, "rule-sum.num-clients": number}
        refuses(nodes, node_id, forged, RefusedError, "covers too few or too many")
    nodes.handle(node_id, request)
