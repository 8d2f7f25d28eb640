"""A ClientManager that offers exactly the clients that were selected."""

from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.criterion import Criterion

__all__ = ["SelectedClients"]


class SelectedClients(ClientManager):
    """Hands all selected clients to a strategy, however many it asks for.

    Parameters
    ----------
    clients : list of ClientProxy
        The selected clients.

    Attributes
    ----------
    num_asked : int
        Number of clients that the strategy asked for last.
    """

    def __init__(self, clients: list[ClientProxy]) -> None:
        self.clients = clients
        self.num_asked = len(clients)

    def num_available(self) -> int:
        """Return the number of selected clients."""
        return len(self.clients)

    def register(self, client: ClientProxy) -> bool:
        """Refuse: the selection is made."""
        del client
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Do nothing: a client that left fails its training."""

    def all(self) -> dict[str, ClientProxy]:
        """Return the selected clients by their cid."""
        return {client.cid: client for client in self.clients}

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
        return list(self.clients)
