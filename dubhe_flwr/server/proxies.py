"""How a batch reaches Flower's ClientProxies: over their Grid, or one by one without one."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import sha256

from flwr.common import EvaluateIns, Parameters
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.adapter.exchange import send_over_grid
from dubhe_flwr.adapter.records import from_config, to_config
from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Replies

__all__ = ["node_id_of", "node_ids_of", "send_to_proxies"]


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

    def ask(request: tuple[int, Fields]) -> tuple[int, Mapping[str, object] | NodeFailure]:
        node_id, fields = request
        instruction = EvaluateIns(Parameters([], "numpy.ndarray"), to_config(fields))
        try:
            result = clients[node_id].evaluate(instruction, timeout, None)
        except Exception as error:  # noqa: BLE001 - a proxy may fail in any way
            return node_id, NodeFailure(type(error).__name__)
        reply = from_config(result.metrics)
        return node_id, reply if reply is not None else NodeFailure("no reply of the protocol")

    executor = ThreadPoolExecutor()
    answers = [executor.submit(ask, request) for request in batch.fields()]
    done, _ = wait(answers, timeout)
    executor.shutdown(wait=False, cancel_futures=True)
    return dict(answer.result() for answer in answers if answer in done)
