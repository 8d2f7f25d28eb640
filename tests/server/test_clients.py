"""Flower's clients by node id, and who of them a strategy is offered."""

from typing import Any

import pytest
from apis import FIT
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.server import SelectedClients


class Foreign(ClientProxy):
    """A client of something else than a ServerApp."""

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = evaluate = reconnect = get_properties


def test_clients_without_a_grid_are_refused() -> None:
    """Their ClientApps have no mod that could answer; the sentence names the way out."""
    manager = SimpleClientManager()
    manager.register(Foreign("7"))
    with pytest.raises(SettingsError, match=r"Client 7 is a Foreign, .* in a ServerApp"):
        FIT.dubhe().configure_fit(1, None, manager)


def test_all_selected_clients_are_offered() -> None:
    """However many are asked for, and nobody else."""
    clients = [Foreign("1"), Foreign("2")]
    offered = SelectedClients(clients)
    assert offered.num_available() == 2
    assert offered.sample(1, 99) == clients
    assert offered.all() == {"1": clients[0], "2": clients[1]}
    assert offered.wait_for(99)
