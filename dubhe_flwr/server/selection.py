"""A strategy that lets a selector choose who trains and leaves all else to the wrapped one."""

import time
from collections.abc import Mapping
from dataclasses import replace
from logging import INFO, WARNING
from typing import Any

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from dubhe_flwr.exchange import log
from dubhe_flwr.protocol import Batch, Plan, Selector
from dubhe_flwr.records import EPOCH_KEY
from dubhe_flwr.server.client_manager import SelectedClients
from dubhe_flwr.server.proxies import node_ids_of, send_to_proxies

__all__ = ["Selection"]


class Selection(Strategy):
    """Wraps a strategy: the selector chooses the clients, the strategy trains and aggregates.

    Subclasses override `eligible` to leave nodes out of a round, and `on_plan` to see who was
    chosen.

    Parameters
    ----------
    strategy : Strategy
        Any strategy with `configure_fit`.
    selector : Selector
        How to choose; `Dubhe` brings its own.
    equal_weights : bool (default: True)
        Give all chosen clients the same weight (eq. 1 of the paper), whatever number of examples
        they report.
    expected_nodes : int, optional (default: as many as are selected)
        Nodes to wait for before the first round.
    wait_timeout : float (default: 60)
        Seconds to wait for them.
    stage_timeout : float, optional (default: 600)
        Seconds to wait for the replies to one batch.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: Selector[Any],
        *,
        equal_weights: bool = True,
        expected_nodes: int | None = None,
        wait_timeout: float = 60.0,
        stage_timeout: float | None = 600.0,
    ) -> None:
        super().__init__()
        self.strategy = strategy
        self.selector = selector
        self.equal_weights = equal_weights
        self.expected_nodes = expected_nodes or selector.num_participants
        self.wait_timeout = wait_timeout
        self.stage_timeout = stage_timeout
        self.state = selector.initial_state()
        self.plan: Plan | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    # -- to override ------------------------------------------------------------------------

    def eligible(self, server_round: int, clients: Mapping[int, ClientProxy]) -> list[int]:
        """Return the node ids of the clients that may be chosen in this round.

        Parameters
        ----------
        server_round : int
            The round.
        clients : mapping of int to ClientProxy
            All clients that are there, by node id.
        """
        del server_round
        return list(clients)

    def on_plan(self, plan: Plan, seconds: float) -> None:
        """Take note of who was chosen; the default writes it to Flower's log.

        Parameters
        ----------
        plan : Plan
            Who trains, and what the exchanges were.
        seconds : float
            Time that the selection took.
        """
        log(
            INFO,
            "dubhe: %s of %s clients selected in %.2f s (try %s of %s)",
            len(plan.participants),
            plan.num_registered,
            seconds,
            plan.chosen_try + 1,
            plan.tries,
        )
        for report in plan.stages:
            for reason, number in report.dropped.items():
                log(WARNING, "dubhe: %s: %s replies dropped: %s", report.stage, number, reason)
        for note in plan.notes:
            log(WARNING, "dubhe: %s", note)

    # -- Strategy ---------------------------------------------------------------------------

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Leave it to the wrapped strategy."""
        return self.strategy.initialize_parameters(client_manager)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Choose the clients, and let the wrapped strategy make their instructions."""
        self._wait_for_nodes(client_manager)
        clients = node_ids_of(client_manager.all())
        plan = self._select(server_round, clients)
        chosen = SelectedClients([clients[node_id] for node_id in plan.participants])
        instructions = self.strategy.configure_fit(server_round, parameters, chosen)
        if not plan.epoch:
            return instructions
        epoch: dict[str, Scalar] = {EPOCH_KEY: plan.epoch.hex()}
        return [(client, replace(ins, config=ins.config | epoch)) for client, ins in instructions]

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Let the wrapped strategy aggregate, in the order of the plan and with equal weights."""
        if self.plan is not None:
            # Floating-point sums depend on the order, and replies arrive in any.
            position = {str(node_id): i for i, node_id in enumerate(self.plan.participants)}
            results = sorted(results, key=lambda result: position.get(result[0].cid, -1))
        if self.equal_weights:
            results = [(client, replace(result, num_examples=1)) for client, result in results]
        return self.strategy.aggregate_fit(server_round, results, failures)

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Leave it to the wrapped strategy, on all clients."""
        return self.strategy.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Leave it to the wrapped strategy."""
        return self.strategy.aggregate_evaluate(server_round, results, failures)

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Leave it to the wrapped strategy."""
        return self.strategy.evaluate(server_round, parameters)

    # -- selection --------------------------------------------------------------------------

    def _select(self, server_round: int, clients: Mapping[int, ClientProxy]) -> Plan:
        begin = time.perf_counter()
        present = self.eligible(server_round, clients)
        self.state, outcome = self.selector.begin_round(self.state, server_round, present)
        while isinstance(outcome, Batch):
            replies = send_to_proxies(clients, outcome, self.stage_timeout)
            self.state, outcome = self.selector.step(self.state, replies)
        self.plan = outcome
        self.on_plan(outcome, time.perf_counter() - begin)
        return outcome

    def _wait_for_nodes(self, client_manager: ClientManager) -> None:
        if self.plan is not None:
            return
        deadline = time.monotonic() + self.wait_timeout
        while (available := client_manager.num_available()) < self.expected_nodes:
            if time.monotonic() > deadline:
                log(
                    WARNING,
                    "dubhe: %s of %s expected nodes came within %.0f s; going on with them",
                    available,
                    self.expected_nodes,
                    self.wait_timeout,
                )
                return
            time.sleep(0.2)
