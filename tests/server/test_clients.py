"""Flower's clients by node id, and the ClientManager of those that were selected."""

from typing import Any

import pytest
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from support import numpy_client_app

from dubhe_flwr.adapter._compat import GridClientProxy, new_run
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest
from dubhe_flwr.server.clients import SelectedClients, ask, clients_of
from dubhe_flwr.simulation import InProcessGrid

HELLO = Envelope(bytes(16), "hello", 1)


class Proxy(ClientProxy):
    """Is a client of Flower before there were ServerApps."""

    def fit(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_properties = get_parameters = evaluate = reconnect = fit


@pytest.fixture
def manager() -> SimpleClientManager:
    """Return the manager of three clients of a ServerApp."""
    grid = InProcessGrid(numpy_client_app(), 3)
    new_run(grid.run.run_id)
    manager = SimpleClientManager()
    for node_id in grid.contexts:
        manager.register(GridClientProxy(node_id, grid, grid.run.run_id))
    return manager


def test_clients_are_asked_over_their_grid(manager: SimpleClientManager) -> None:
    """A batch goes to the nodes that it names, and the replies come back by node."""
    clients = clients_of(manager)
    nodes = list(clients)[1:]
    replies: Any = ask(clients, Batch(HELLO, dict.fromkeys(nodes, HelloRequest())), 60.0)
    assert [(node_id, replies[node_id]["alias"]) for node_id in nodes] == list(
        zip(nodes, "12", strict=True)
    )
    assert ask(clients, Batch(HELLO, {}), 60.0) == {}


def test_a_client_without_a_grid_is_refused(manager: SimpleClientManager) -> None:
    """The sentence names it, and what to run the strategy in."""
    manager.register(Proxy("old"))
    with pytest.raises(SettingsError, match=r"Client old is a Proxy.*run the strategy in a Server"):
        clients_of(manager)


def test_the_selected_clients_are_all_there_are(manager: SimpleClientManager) -> None:
    """A strategy gets all of them, whatever it asks for; what it asked for is kept."""
    chosen = list(clients_of(manager).values())[:2]
    selected = SelectedClients(chosen)
    assert selected.num_asked == 2
    assert selected.wait_for(99)
    assert selected.sample(1, min_num_clients=9) == chosen
    assert selected.num_asked == 1
    assert list(selected.all().values()) == chosen
    assert not selected.register(Proxy("late"))
    selected.unregister(chosen[0])
    assert selected.num_available() == 2
