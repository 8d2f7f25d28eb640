"""Flower's clients by node id, and those that were selected."""

from collections.abc import Mapping, Sequence

from flwr.server import ClientManager, SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.criterion import Criterion

from dubhe_flwr.adapter._compat import GridClientProxy
from dubhe_flwr.adapter.transport import send_over_grid
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Replies

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


class SelectedClients(SimpleClientManager):
    """Hands all selected clients to a strategy, however many it asks for."""

    def __init__(self, clients: Sequence[ClientProxy]) -> None:
        super().__init__()
        self.clients = {client.cid: client for client in clients}

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
        del num_clients, min_num_clients, criterion
        return list(self.clients.values())
