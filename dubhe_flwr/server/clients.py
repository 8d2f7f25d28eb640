"""Flower's clients by node id, those that were selected, and their training in one batch.

Flower's server asks one ClientProxy after the other to train, from several threads. A Grid that
trains the clients of a batch together has to be given all of them at once.
"""

from collections.abc import Mapping, Sequence
from threading import Lock

from flwr.app import Message
from flwr.common import FitIns, FitRes
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.criterion import Criterion

from dubhe_flwr.adapter._compat import GridClientProxy, fit_records, fit_result
from dubhe_flwr.adapter.transport import send_over_grid
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Replies

__all__ = ["Clients", "SelectedClients", "ask", "clients_of", "sent_together"]

Clients = Mapping[int, GridClientProxy]
"""Clients by node id."""


def clients_of(client_manager: ClientManager) -> dict[int, GridClientProxy]:
    """Return all clients by node id; `SettingsError` if one is not of a ServerApp."""
    clients = {}
    for client in client_manager.all().values():
        if not isinstance(client, GridClientProxy):
            raise SettingsError(
                f"Client {client.cid} is a {type(client).__name__}, which is not asked over a "
                "Grid; run the strategy in a ServerApp."
            )
        clients[client.node_id] = client
    return clients


def ask(clients: Clients, batch: Batch, timeout: float | None) -> Replies:
    """Send a batch over the Grid that the clients share; see `send_over_grid`."""
    grid = next((clients[node_id].grid for node_id in batch.requests), None)
    return {} if grid is None else send_over_grid(grid, batch, timeout)


class SelectedClients(ClientManager):
    """Hands all selected clients to a strategy, and notes in `num_asked` how many it asked for."""

    def __init__(self, clients: Sequence[ClientProxy]) -> None:
        self._clients = clients
        self.num_asked = len(clients)

    def num_available(self) -> int:
        """Return the number of selected clients."""
        return len(self._clients)

    def register(self, client: ClientProxy) -> bool:
        """Refuse: the selection is made."""
        del client
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Do nothing: a client that left fails its training."""

    def all(self) -> dict[str, ClientProxy]:
        """Return the selected clients by their cid."""
        return {client.cid: client for client in self._clients}

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Return at once: the selected clients are all there will be."""
        del num_clients, timeout
        return True

    def sample(
        self,
        num_clients: int,
        min_num_clients: int | None = None,
        criterion: Criterion | None = None,
    ) -> list[ClientProxy]:
        """Return all selected clients; a fraction or minimum of the strategy does not count."""
        del min_num_clients, criterion
        self.num_asked = num_clients
        return list(self._clients)


class _Batch:
    """The instructions of a round; whoever asks first sends all of them."""

    def __init__(self, instructions: Sequence[tuple[GridClientProxy, FitIns]]) -> None:
        self.instructions = {client.node_id: ins for client, ins in instructions}
        self._grid = instructions[0][0].grid
        self._lock = Lock()
        self._replies: dict[int, Message] | None = None

    def reply(self, node_id: int, timeout: float | None, group_id: int | None) -> FitRes:
        """Return what a node answers."""
        with self._lock:
            if self._replies is None:
                self._replies = self._send(timeout, "" if group_id is None else str(group_id))
            reply = self._replies.pop(node_id, None)
        if reply is None:
            raise ValueError(f"Node {node_id} did not answer.")
        return fit_result(reply)

    def _send(self, timeout: float | None, group_id: str) -> dict[int, Message]:
        messages = [
            Message(fit_records(ins), node_id, "train", ttl=timeout, group_id=group_id)
            for node_id, ins in self.instructions.items()
        ]
        replies = self._grid.send_and_receive(messages, timeout=timeout)
        asked = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        return {asked[reply.metadata.reply_to_message_id]: reply for reply in replies}


class _BatchedProxy(GridClientProxy):
    """A client whose training instruction goes with those of the others."""

    def __init__(self, client: GridClientProxy, batch: _Batch) -> None:
        super().__init__(client.node_id, client.grid, client.run_id)
        self.properties = client.properties
        self._batch = batch

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Train with the others of the batch, or alone where the instruction was changed since."""
        if self._batch.instructions.get(self.node_id) is not ins:
            return super().fit(ins, timeout, group_id)
        return self._batch.reply(self.node_id, timeout, group_id)


def sent_together(
    instructions: list[tuple[ClientProxy, FitIns]],
) -> list[tuple[ClientProxy, FitIns]]:
    """Return the instructions of `configure_fit` for clients that are asked in one batch.

    Unless all of them go over one Grid that trains clients together, they stay as they are.
    """
    known = [(client, ins) for client, ins in instructions if isinstance(client, GridClientProxy)]
    grids = {id(client.grid) for client, _ in known}
    if not 1 < len(known) == len(instructions) or len(grids) > 1:
        return instructions
    if getattr(known[0][0].grid, "cohort", None) is None:
        return instructions
    batch = _Batch(known)
    return [(_BatchedProxy(client, batch), ins) for client, ins in known]
