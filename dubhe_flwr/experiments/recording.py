"""A selection that keeps a record of what it does, round by round."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from flwr.common import FitIns, FitRes, Parameters, Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from dubhe_flwr.data import Federation
from dubhe_flwr.errors import DubheError
from dubhe_flwr.experiments.findings import SelectedData, plan_notes
from dubhe_flwr.protocol import Plan, Selector
from dubhe_flwr.report import MethodResult
from dubhe_flwr.server import Selection

__all__ = ["RecordedSelection"]


class RecordedSelection(Selection):
    """Selects, trains and aggregates as `Selection` does, and can tell afterwards how it went.

    Parameters
    ----------
    strategy : Strategy
        Reports the model's `accuracy` wherever it evaluates it on the server.
    selector : Selector
        How to choose.
    expected_nodes : int
        Nodes to wait for before the first round.
    on_round : callable (int, float or None) -> None
        Is told each round and the accuracy after it, None without an evaluation; round 0 is that
        of the initial model.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: Selector[Any],
        *,
        expected_nodes: int,
        on_round: Callable[[int, float | None], None],
    ) -> None:
        super().__init__(strategy, selector, expected_nodes=expected_nodes)
        self._on_round = on_round
        self._plans: list[Plan] = []
        self._evaluations: list[tuple[float | None, float | None]] = []
        self._selection_seconds = 0.0
        self._training_seconds = 0.0
        self._training_began = 0.0
        self._update_bytes_down = 0
        self._update_bytes_up = 0

    def on_plan(self, plan: Plan, seconds: float) -> None:
        """Take note of the plan."""
        super().on_plan(plan, seconds)
        self._plans.append(plan)
        self._selection_seconds += seconds

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Select, and take note of what the instructions weigh."""
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
        """Aggregate, and take note of what the updates weigh.

        Raises
        ------
        DubheError
            If a client failed to train: a comparison with fewer clients would be none.
        """
        self._training_seconds += time.perf_counter() - self._training_began
        if failures:
            raise DubheError(
                f"Round {server_round}: {len(failures)} of {len(results) + len(failures)} clients "
                f"failed to train; Flower's log above says why ({failures[0]})."
            )
        self._update_bytes_up += _num_bytes(result.parameters for _, result in results)
        return super().aggregate_fit(server_round, results, failures)

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Evaluate, if it is time, and take note of loss and accuracy."""
        evaluation = super().evaluate(server_round, parameters)
        loss, accuracy = None, None
        if evaluation is not None:
            loss, accuracy = evaluation[0], float(evaluation[1]["accuracy"])
        self._evaluations.append((loss, accuracy))
        self._on_round(server_round, accuracy)
        return evaluation

    def result(self, federation: Federation) -> MethodResult:
        """Return how the rounds so far went.

        Parameters
        ----------
        federation : Federation
            Its rows belong to the clients whose aliases are 0, 1, ..., N-1.
        """
        selected = [[int(alias) for alias in plan.aliases] for plan in self._plans]
        data = SelectedData.of(selected, federation)
        selection_bytes_up = sum(plan.bytes_up for plan in self._plans)
        selection_bytes_down = sum(plan.bytes_down for plan in self._plans)
        return MethodResult(
            num_rounds=len(self._plans),
            accuracy=tuple(accuracy for _, accuracy in self._evaluations),
            loss=tuple(loss for loss, _ in self._evaluations),
            emd=data.emd,
            local_emd=data.local_emd,
            coverage=data.coverage,
            class_proportions=data.class_proportions,
            selection_seconds=self._selection_seconds,
            training_seconds=self._training_seconds,
            bytes_up=self._update_bytes_up + selection_bytes_up,
            bytes_down=self._update_bytes_down + selection_bytes_down,
            selection_bytes_up=selection_bytes_up,
            selection_bytes_down=selection_bytes_down,
            notes=tuple(note for plan in self._plans for note in plan_notes(plan)),
            fallback_rounds=tuple(plan.server_round for plan in self._plans if plan.fallback),
        )


def _num_bytes(all_parameters: Iterable[Parameters]) -> int:
    return sum(len(tensor) for parameters in all_parameters for tensor in parameters.tensors)
