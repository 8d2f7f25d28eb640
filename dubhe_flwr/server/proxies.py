"""How a batch reaches Flower's ClientProxies: over their Grid, or one by one without one."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Final

from flwr.common import EvaluateIns, Parameters
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.adapter.exchange import send_over_grid
from dubhe_flwr.adapter.records import from_config, to_config
from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Replies

__all__ = ["node_id_of", "node_ids_of", "send_to_proxies"]

_MOST_AT_ONCE: Final = 256
"""Clients without a Grid that are asked at once; as many may hang without delaying others."""


def node_id_of(client: ClientProxy) -> int:
    """Return the node id of a proxy; one without gets an id from its cid."""
    own = getattr(client, "node_id", None)
    if isinstance(own, int):
        return own
    return int.from_bytes(sha256(client.cid.encode()).digest()[:8], "big") >> 1


def node_ids_of(clients: Mapping[str, ClientProxy]) -> dict[int, ClientProxy]:
    """Return the proxies by node id."""
    return {node_id_of(client): client for client in clients.values()}


def send_to_proxies(
    clients: Mapping[int, ClientProxy], batch: Batch, timeout: float | None
) -> Replies:
    """Send a batch and collect the replies.

    Proxies of a ServerApp share a Grid, which takes the whole batch at once. Others get each
    request as a plain EvaluateIns, several at a time.

    Parameters
    ----------
    clients : mapping of int to ClientProxy
        All clients, by node id.
    batch : Batch
        The requests.
    timeout : float or None
        Seconds to wait for all replies. A proxy that answers later, or never, is not waited for.
    """
    grid = next((getattr(clients[node_id], "grid", None) for node_id in batch.requests), None)
    if grid is not None:
        return send_over_grid(grid, batch, timeout)

    waiting: SimpleQueue[tuple[int, Fields]] = SimpleQueue()
    answers: SimpleQueue[tuple[int, Mapping[str, object] | NodeFailure]] = SimpleQueue()
    for request in batch.fields():
        waiting.put(request)

    def ask() -> None:
        with suppress(Empty):
            while True:
                node_id, fields = waiting.get_nowait()
                answers.put((node_id, _answer(clients[node_id], fields, timeout)))

    # Threads of an executor would be waited for when the process ends.
    for _ in range(min(_MOST_AT_ONCE, len(batch.requests))):
        Thread(target=ask, daemon=True).start()
    deadline = inf if timeout is None else monotonic() + timeout
    replies: dict[int, Mapping[str, object] | NodeFailure] = {}
    with suppress(Empty):
        while len(replies) < len(batch.requests) and (left := deadline - monotonic()) > 0:
            node_id, reply = answers.get(timeout=None if left == inf else left)
            replies[node_id] = reply
    with suppress(Empty):
        while True:  # who was not asked in time is not asked later
            waiting.get_nowait()
    return replies


def _answer(
    client: ClientProxy, fields: Fields, timeout: float | None
) -> Mapping[str, object] | NodeFailure:
    instruction = EvaluateIns(Parameters([], "numpy.ndarray"), to_config(fields))
    try:
        reply = from_config(client.evaluate(instruction, timeout, None).metrics)
    except Exception as error:  # noqa: BLE001 - a proxy may fail in any way
        return NodeFailure(type(error).__name__)
    return reply if reply is not None else NodeFailure("no reply of the protocol")
