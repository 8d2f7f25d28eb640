"""Tests of the clients that a strategy with configure_fit is offered."""

from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest
from apis import FIT, NUM_NODES, strategy_server_app
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from supernodes import SuperNodes

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.server import _clients_of
from dubhe_flwr.simulation import run_on_grid


def test_clients_without_a_grid_are_refused() -> None:
    """Clients without a Grid are refused, since no mod could answer; the error says what to do."""
    manager = SimpleClientManager()
    manager.register(Mock(spec=ClientProxy, cid="7"))
    with pytest.raises(SettingsError, match=r"Client 7 is a Mock, .* in a ServerApp"):
        FIT.dubhe().configure_fit(1, None, manager)


def test_nodes_may_leave_while_clients_are_listed() -> None:
    """Flower's and our own thread unregister nodes, perhaps while the main thread lists them."""
    manager = SimpleClientManager()

    class Leaving(SimpleNamespace):
        @property
        def node_id(self) -> int:
            manager.clients.pop("2", None)
            return int(self.cid)

    manager.clients = {cid: cast("ClientProxy", Leaving(cid=cid, grid=None)) for cid in "123"}
    assert list(_clients_of(manager)) == [1, 2, 3]
    assert list(_clients_of(manager)) == [1, 3]


def test_nodes_register_for_no_round_after_the_last() -> None:
    """How many rounds there are is known from Flower's loop, even without `rounds_left`."""
    strategy, grid = FIT.dubhe(registration_interval=4), SuperNodes(FIT.client_app(), NUM_NODES)
    run_on_grid(strategy_server_app(strategy, 4), grid)
    assert strategy.driver.run.last == 4
    strategy.driver._ahead.withdraw(None)  # waits for the planning thread
    assert [stage for _, stage in grid.exchanges].count("join") == 1
