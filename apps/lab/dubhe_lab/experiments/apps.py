"""The Flower apps of a comparison: one ClientApp for all methods, and a strategy for each."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import (
    EvaluateIns,
    FitIns,
    FitRes,
    NDArrays,
    Parameters,
    Scalar,
    ndarrays_to_parameters,
)
from flwr.server import ClientManager, ServerAppComponents, ServerConfig
from flwr.server.client_proxy import ClientProxy
from flwr.server.server import evaluate_clients
from flwr.server.strategy import FedAvg, FedAvgM, Strategy
from flwr.serverapp import ServerApp
from numpy.typing import NDArray

from dubhe_flwr.clientapp import DubheMod
from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.server import Selection
from dubhe_lab.baselines import LossSelector
from dubhe_lab.baselines.losses import EVALUATE, LOSS, RMS_LOSS
from dubhe_lab.baselines.roll_call import Report
from dubhe_lab.data import Federation
from dubhe_lab.experiments.findings import selected_data
from dubhe_lab.experiments.scenario import Scenario
from dubhe_lab.report.results import MethodResult
from dubhe_lab.training.models import get_parameters

_TESTED: Final = ("accuracy", "balanced_accuracy", "worst_recall")
"""Metrics of an evaluation besides the loss; each is a series of `MethodResult`."""

_NO_MODEL: Final = Parameters([], "numpy.ndarray")


class RecordedSelection(Selection):
    """Selects, trains and aggregates as `Selection` does, and records the results of each round.

    After each round, `on_round` gets the round and the accuracy, or None if the strategy did not
    evaluate the model; round 0 is the initial model. For a `LossSelector`, clients evaluate the
    current model before each choice and report their losses after training. The evaluations count
    towards the time and bytes of the selection.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: Selector[Any],
        *,
        expected_nodes: int,
        on_round: Callable[[int, float | None], None],
    ) -> None:
        super().__init__(
            strategy, selector, expected_nodes=expected_nodes, on_selection=self._take_note
        )
        self._by_loss = selector if isinstance(selector, LossSelector) else None
        if self._by_loss is not None:
            self._by_loss.ask = self._losses
        self._to_evaluate: tuple[Mapping[int, ClientProxy], Parameters] = {}, _NO_MODEL
        self._on_round = on_round
        self._plans: list[Plan] = []
        self._losses_of_tests: list[float | None] = []
        self._tests: dict[str, list[float | None]] = {name: [] for name in _TESTED}
        self._selection_seconds = 0.0
        self._training_seconds = 0.0
        self._training_began = 0.0
        self._update_bytes_down = 0
        self._update_bytes_up = 0
        self._evaluation_bytes_down = 0

    def _losses(self, node_ids: Sequence[int]) -> dict[int, float]:
        """Have clients evaluate the current model; raise an error if one fails."""
        clients, parameters = self._to_evaluate
        asked = [(clients[node_id], EvaluateIns(parameters, {})) for node_id in node_ids]
        self._evaluation_bytes_down += _num_bytes([parameters]) * len(asked)
        results, failures = evaluate_clients(asked, max_workers=None, timeout=None, group_id=0)
        if failures:
            raise DubheError(
                f"{len(failures)} of {len(asked)} clients failed to evaluate the model; see "
                f"Flower's log above ({failures[0]})."
            )
        return {_node_id(client): float(result.loss) for client, result in results}

    def _take_note(self, plan: Plan, seconds: float) -> None:
        self._plans.append(plan)
        self._selection_seconds += seconds

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Select, and count the bytes of the instructions."""
        clients = client_manager.all().values()
        self._to_evaluate = {_node_id(client): client for client in clients}, parameters
        instructions = super().configure_fit(server_round, parameters, client_manager)
        self._update_bytes_down += _num_bytes(ins.parameters for _, ins in instructions)
        self._training_began = time.perf_counter()
        return instructions

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Aggregate, and count the bytes of the updates; raise an error if a client fails."""
        self._training_seconds += time.perf_counter() - self._training_began
        refuse_failures(server_round, results, failures)
        self._update_bytes_up += _num_bytes(result.parameters for _, result in results)
        if self._by_loss is not None:
            run = self.driver.run
            reports = {
                _node_id(client): Report(
                    run.state.past.num_rounds,
                    float(result.metrics[LOSS]),
                    float(result.metrics[RMS_LOSS]),
                )
                for client, result in results
            }
            run.state = self._by_loss.take_reports(run.state, reports)
        return super().aggregate_fit(server_round, results, failures)

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Evaluate if this round is due, and record loss and metrics."""
        evaluation = super().evaluate(server_round, parameters)
        loss, found = evaluation if evaluation is not None else (None, {})
        self._losses_of_tests.append(loss)
        for name, series in self._tests.items():
            series.append(float(found[name]) if name in found else None)
        self._on_round(server_round, self._tests["accuracy"][-1])
        return evaluation

    def result(self, federation: Federation, num_rounds: int) -> MethodResult:
        """Return the results of all rounds, with client i as row i of the federation.

        Raises `DubheError` if the run ended early.
        """
        if (ended := max(0, len(self._losses_of_tests) - 1)) < num_rounds:
            raise DubheError(
                f"The run ended after {ended} of {num_rounds} rounds; see Flower's log above."
            )
        selection_bytes_up = sum(plan.bytes_up for plan in self._plans)
        selection_bytes_down = sum(plan.bytes_down for plan in self._plans)
        selection_bytes_down += self._evaluation_bytes_down
        tests: dict[str, Any] = {name: tuple(series) for name, series in self._tests.items()}
        stages = [stage for plan in self._plans for stage in plan.stages]
        return MethodResult(
            num_rounds=len(self._plans),
            loss=tuple(self._losses_of_tests),
            **tests,
            **selected_data(self._plans, federation),
            selection_seconds=self._selection_seconds,
            training_seconds=self._training_seconds,
            bytes_up=self._update_bytes_up + selection_bytes_up,
            bytes_down=self._update_bytes_down + selection_bytes_down,
            selection_bytes_up=selection_bytes_up,
            selection_bytes_down=selection_bytes_down,
            messages=sum(stage.sent for stage in stages),
            evaluations=sum(stage.sent for stage in stages if stage.stage == EVALUATE),
        )


def refuse_failures(
    server_round: int, results: Sequence[object], failures: Sequence[object]
) -> None:
    """Raise `DubheError` if a client failed; Flower's strategies would carry on without it."""
    if failures:
        raise DubheError(
            f"Round {server_round}: {len(failures)} of {len(results) + len(failures)} clients "
            f"failed to train; see Flower's log above ({failures[0]})."
        )


def build_client_app(scenario: Scenario) -> ClientApp:
    """Return the ClientApp of all nodes."""

    def client(context: Context) -> Client:
        return scenario.client(_partition(context)).to_client()

    def label_counts(context: Context) -> NDArray[np.int64]:
        return np.asarray(scenario.federation.label_counts[_partition(context)])

    bits = scenario.settings.selection.key_bits
    mod = DubheMod(label_counts, simulated=True, min_key_bits=bits, max_key_bits=bits)
    return ClientApp(client_fn=client, mods=[mod])


def build_strategy(
    selector: Selector[Any], scenario: Scenario, on_round: Callable[[int, float | None], None]
) -> RecordedSelection:
    """Return federated averaging over the selected clients, which records its results."""

    def test(
        server_round: int, parameters: NDArrays, _config: dict[str, Scalar]
    ) -> tuple[float, dict[str, Scalar]] | None:
        if not scenario.settings.is_evaluated(server_round):
            return None
        found = scenario.test(parameters)._asdict()
        return found.pop("loss"), found

    momentum = scenario.settings.training.server_momentum
    averaging = (partial(FedAvgM, server_momentum=momentum) if momentum else FedAvg)(
        fraction_evaluate=0.0,
        evaluate_fn=test,
        on_fit_config_fn=lambda server_round: {"server-round": server_round},
        fit_metrics_aggregation_fn=lambda _metrics: {},
        initial_parameters=ndarrays_to_parameters(get_parameters(scenario.new_model())),
    )
    return RecordedSelection(
        averaging, selector, expected_nodes=scenario.federation.num_clients, on_round=on_round
    )


def build_server_app(strategy: Strategy, num_rounds: int) -> ServerApp:
    """Return a ServerApp that runs a strategy."""
    components = ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=num_rounds))
    return ServerApp(server_fn=lambda _context: components)


def _node_id(client: ClientProxy) -> int:
    return int(getattr(client, "node_id", 0))


def _partition(context: Context) -> int:
    return int(context.node_config["partition-id"])


def _num_bytes(all_parameters: Iterable[Parameters]) -> int:
    return sum(len(tensor) for parameters in all_parameters for tensor in parameters.tensors)
