"""Strategies with `configure_fit` that choose who trains and leave all else to the wrapped one."""

from dataclasses import replace

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from dubhe_flwr.adapter import Selecting, SelectingByDubhe
from dubhe_flwr.adapter.transport import more_may_come
from dubhe_flwr.server.clients import Clients, SelectedClients, ask, clients_of


class Selection(Selecting[Strategy], Strategy):
    """Wraps a strategy with `configure_fit`; its options are `dubhe_flwr.adapter.Options`."""

    _configures = "configure_fit"

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Return the model of the checkpoint; without one leave it to the wrapped strategy."""
        model: Parameters | None = self.driver.run.begin()
        return model or self.strategy.initialize_parameters(client_manager)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Choose the clients, and let the wrapped strategy make their instructions."""
        clients: Clients = {}

        def present() -> list[int]:
            nonlocal clients
            clients = clients_of(client_manager)
            return list(clients)

        plan = self.driver.plan_round(
            server_round,
            present,
            lambda batch, timeout: ask(clients, batch, timeout),
            lambda: all(more_may_come(client.grid) for client in clients.values()),
        )
        if plan.fallback and not plan.participants:
            return []  # nobody is there, and the round is skipped
        chosen = SelectedClients([clients[node_id] for node_id in plan.participants])
        instructions = self.strategy.configure_fit(plan.server_round, parameters, chosen)
        self.driver.check_trained([getattr(client, "node_id", 0) for client, _ in instructions])
        return instructions

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Let the wrapped strategy aggregate in the plan's order, with equal weights if set."""
        results = self.driver.in_order(results, lambda result: getattr(result[0], "node_id", 0))
        if self.driver.options.equal_weights:
            self.driver.note_sizes([result.num_examples for _, result in results])
            results = [(client, replace(result, num_examples=1)) for client, result in results]
        server_round = self.driver.completed(server_round)
        parameters, metrics = self.strategy.aggregate_fit(server_round, results, failures)
        return parameters, {**metrics, **self.driver.metrics}

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Leave it to the wrapped strategy, on all clients or on the selected ones."""
        server_round += self.driver.run.first
        nodes = self.driver.to_evaluate()
        if nodes is not None:
            clients = clients_of(client_manager)
            client_manager = SelectedClients([clients[n] for n in nodes if n in clients])
        return self.strategy.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Leave it to the wrapped strategy."""
        server_round += self.driver.run.first
        return self.strategy.aggregate_evaluate(server_round, results, failures)

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Keep the model of the round, then leave it to the wrapped strategy."""
        server_round += self.driver.run.first
        self.driver.run.complete(server_round, parameters)
        return self.strategy.evaluate(server_round, parameters)


class Dubhe(SelectingByDubhe[Strategy], Selection):
    """Chooses clients whose data together is close to uniform, without seeing anyone's labels.

    Wraps any strategy with `configure_fit`, and takes what `dubhe_flwr.serverapp.Dubhe` takes.

    Examples
    --------
    >>> from flwr.server.strategy import FedAvg
    >>> strategy = Dubhe(FedAvg(), num_participants=20)
    """
