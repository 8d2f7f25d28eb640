"""A strategy that lets a selector choose who trains and leaves all else to the wrapped one."""

from dataclasses import replace
from logging import INFO

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from dubhe_flwr.adapter import Selecting
from dubhe_flwr.adapter.exchange import log
from dubhe_flwr.server.batched import sent_together
from dubhe_flwr.server.client_manager import SelectedClients
from dubhe_flwr.server.proxies import node_id_of, node_ids_of, send_to_proxies

__all__ = ["Selection"]


class Selection(Selecting, Strategy):
    """Wraps a strategy: the selector chooses the clients, the strategy trains and aggregates.

    The arguments, and the methods to override, are those of `dubhe_flwr.adapter.Selecting`.
    """

    strategy: Strategy
    _override_logged = False

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Return the model of the checkpoint; without one leave it to the wrapped strategy."""
        model: Parameters | None = self._model_to_begin_with()
        return model or self.strategy.initialize_parameters(client_manager)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Choose the clients, and let the wrapped strategy make their instructions."""
        server_round = self._begin_round(server_round)
        self._wait_for_nodes(client_manager.num_available)
        clients = node_ids_of(client_manager.all())
        plan = self._select(
            server_round,
            list(clients),
            lambda batch: send_to_proxies(clients, batch, self.stage_timeout),
        )
        if plan.fallback and not plan.participants:
            return []  # nobody is there, and the round is skipped
        chosen = SelectedClients([clients[node_id] for node_id in plan.participants])
        instructions = self.strategy.configure_fit(server_round, parameters, chosen)
        if chosen.num_asked != len(chosen.clients):
            self._log_override(chosen.num_asked, len(chosen.clients))
        return sent_together(instructions)

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Let the wrapped strategy aggregate, in the order of the plan and with equal weights."""
        results = sorted(results, key=lambda result: self._position(node_id_of(result[0])))
        if self.equal_weights:
            results = [(client, replace(result, num_examples=1)) for client, result in results]
        self.rounds_done = self._round(server_round)
        return self.strategy.aggregate_fit(self.rounds_done, results, failures)

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Leave it to the wrapped strategy, on all clients or on the selected ones."""
        if self.evaluate_on == "selected" and self.plan is not None:
            clients = node_ids_of(client_manager.all())
            here = [clients[n] for n in self.plan.participants if n in clients]
            client_manager = SelectedClients(here)
        return self.strategy.configure_evaluate(
            self._round(server_round), parameters, client_manager
        )

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Leave it to the wrapped strategy."""
        return self.strategy.aggregate_evaluate(self._round(server_round), results, failures)

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Keep the model of the round, then leave it to the wrapped strategy."""
        server_round = self._round(server_round)
        self._complete(server_round, parameters)
        return self.strategy.evaluate(server_round, parameters)

    def _log_override(self, num_asked: int, num_selected: int) -> None:
        if not self._override_logged:
            log(
                INFO,
                "dubhe: the fraction or minimum of the wrapped strategy asks for %s clients; it is "
                "overridden: all %s selected ones train",
                num_asked,
                num_selected,
            )
        self._override_logged = True
