"""Dubhe for Flower strategies with `configure_fit`, as used in `ServerApp(server_fn=...)`.

`Dubhe` and `Selection` select who trains, and leave everything else to the wrapped strategy.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, cast

from flwr.app import ArrayRecord
from flwr.common import FitIns, FitRes, Parameters, Scalar
from flwr.server import ClientManager, SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.criterion import Criterion
from flwr.server.strategy import Strategy

from dubhe_flwr.adapter._compat import GridClient, num_rounds_of_callers
from dubhe_flwr.adapter.selecting import Selecting, SelectingByDubhe
from dubhe_flwr.adapter.transport import NoticingGrid, is_remote, patience, send_over_grid
from dubhe_flwr.adapter.wrapped import given_only, overriding, training_all_nodes
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.log import warn_once

__all__ = ["Dubhe", "Selection"]

_MASKED: Final = (
    "dubhe: equal_weights has no effect with SecAgg+, where clients weight their own models by the "
    "num_examples that they return; let all of them return the same number"
)


class Selection(Selecting[Strategy], Strategy):
    """Wraps a strategy that has `configure_fit`, and selects its clients.

    Its options are `dubhe_flwr.adapter.arguments.Options`.
    """

    _configures = "configure_fit"
    _methods_of_flower = (
        "initialize_parameters",
        "configure_fit",
        "aggregate_fit",
        "configure_evaluate",
        "aggregate_evaluate",
        "evaluate",
    )
    _grids: tuple[Any, ...] = ()

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Return the checkpoint's model or, without one, the wrapped strategy's."""
        first = self.strategy.initialize_parameters(client_manager)  # the strategy drops its copy
        model: Parameters | None = self.driver.run.begin(foreign=ArrayRecord)
        return model or first

    def select(self, server_round: int, client_manager: ClientManager) -> Plan:
        """Return who trains in a round, for your own training loop.

        Works like `dubhe_flwr.serverapp.Selection.select`, but with the nodes of a ClientManager.
        `Plan.participants` holds the `node_id` of its clients.
        """

        def present() -> list[int]:
            clients = _clients_of(client_manager)
            if clients:  # without clients, the Grids of earlier ones say whether to wait
                self._grids = tuple(client.grid for client in clients.values())
            return list(clients)

        return self.driver.plan_round(
            server_round,
            present,
            # All clients share one Grid.
            lambda *sent: send_over_grid(self._grids[0], *sent) if self._grids else {},
            lambda: min(map(patience, self._grids), default=inf),
        )

    # An app with its own Server may pass further arguments, and expect further values.
    def configure_fit(
        self,
        server_round: int,
        parameters: Parameters,
        client_manager: ClientManager,
        *own: Any,
        **named: Any,
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Select the clients, and have the wrapped strategy make their instructions."""
        self._check_callers()
        plan = self.select(server_round, client_manager)
        self.driver.run.ends_after(num_rounds_of_callers())  # the rounds to plan ahead
        if self.driver.is_skipped:
            return []
        clients = _clients_of(client_manager)
        present = [clients[node_id] for node_id in plan.participants if node_id in clients]
        for client in present:  # not copies, since a strategy may compare them with the manager's
            if is_remote(client.grid):
                grid = client.grid
                other = grid.other if isinstance(grid, NoticingGrid) else grid
                client.grid = NoticingGrid(other, self.driver.pushed)
        num_clients = len(present)
        with given_only(num_clients) as asked, training_all_nodes(self.strategy, num_clients):
            chosen = SelectedClients(present, asked).within(client_manager)
            configure: Any = self.strategy.configure_fit
            instructions: list[tuple[ClientProxy, FitIns]] = configure(
                plan.server_round, parameters, chosen, *own, **named
            )
        node_ids = [getattr(client, "node_id", 0) for client, _ in instructions]
        self.driver.training_begins(node_ids, [client.node_id for client in present])
        return instructions

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
        *own: Any,
        **named: Any,
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Have the wrapped strategy aggregate in the plan's order, with equal weights if set."""
        server_round, results = self.driver.training_ends(
            server_round, results, lambda result: getattr(result[0], "node_id", 0)
        )
        self.driver.metrics["selection-clients"] = len(results)
        if self.driver.options.equal_weights:
            if len({id(result.parameters) for _, result in results}) < len(results):
                warn_once(_MASKED)  # all results hold the sum that the server has unmasked
            results = [(client, replace(result, num_examples=1)) for client, result in results]
        aggregate: Any = self.strategy.aggregate_fit
        parameters, metrics, *more = aggregate(server_round, results, failures, *own, **named)
        return parameters, {**(metrics or {}), **self.driver.metrics}, *more

    def evaluate(
        self, server_round: int, parameters: Parameters, *own: Any, **named: Any
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Save the round's model, then have the wrapped strategy evaluate it."""
        server_round = self.driver.round_in_run(server_round)
        if self.plan is None and server_round > self.driver.run.first + 1:
            self.driver.check_asked(server_round)  # an app's own Server may not configure_fit
        self.driver.run.complete(server_round, parameters)
        evaluate: Callable[..., tuple[float, dict[str, Scalar]] | None] = self.strategy.evaluate
        return evaluate(server_round, parameters, *own, **named)


class Dubhe(SelectingByDubhe[Strategy], Selection):
    """Chooses clients whose data together is close to uniform, without seeing anyone's labels.

    Wraps any strategy that has `configure_fit`, and takes the arguments of
    `dubhe_flwr.serverapp.Dubhe`. The strategy's `client_manager.sample(n)` returns all selected
    clients, whatever n is; with a criterion, only those that meet it.

    Examples
    --------
    >>> from flwr.server.strategy import FedAvg
    >>> strategy = Dubhe(FedAvg(), num_participants=20)
    """


def _clients_of(client_manager: ClientManager) -> dict[int, Any]:
    """Return all clients by node id; raises `SettingsError` for one that has no Grid."""
    clients = {}
    # The manager returns its own dictionary, and another thread may add and remove nodes.
    for client in list(client_manager.all().values()):
        if not isinstance(client, GridClient):
            raise SettingsError(
                f"Client {client.cid} is a {type(client).__name__}, which has no Grid; run the "
                "strategy in a ServerApp."
            )
        clients[client.node_id] = client
    return clients


class SelectedClients(SimpleClientManager):
    """Gives a strategy all selected clients, however many it asks for."""

    def __init__(self, clients: Sequence[ClientProxy], asked: Callable[[], None]) -> None:
        super().__init__()
        self.clients = {client.cid: client for client in clients}
        self._asked = asked

    def __len__(self) -> int:
        """Return their number; raises `SettingsError` if the strategy waits for more."""
        self._asked()
        return super().__len__()

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Return at once, since no clients will be added."""
        del num_clients, timeout
        return True

    def sample(
        self,
        num_clients: int,
        min_num_clients: int | None = None,
        criterion: Criterion | None = None,
        **own: object,
    ) -> list[ClientProxy]:
        """Return all selected clients that meet the criterion, whatever else is asked for."""
        del num_clients, min_num_clients, own
        clients = self.clients.values()
        return [each for each in clients if criterion is None or criterion.select(each)]

    def within(self, other: ClientManager) -> ClientManager:
        """Return a ClientManager with these clients that shares all else with another one."""
        names = ("clients", "num_available", "all", "wait_for", "sample", "__len__")
        return cast("ClientManager", overriding(other, {n: getattr(self, n) for n in names}))
