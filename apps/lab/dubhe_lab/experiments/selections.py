"""Select without training a model, with the real protocol but without Flower."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.protocol import Batch, Fields, NodeFailure, Plan
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.simulated_nodes import answer, policy_without_limits
from dubhe_lab.baselines import (
    ActiveSelector,
    FedCbsSelector,
    FedEntOptSelector,
    FlipsSelector,
    GreedySelector,
    OortSelector,
    PowerOfChoiceSelector,
    RandomSelector,
)
from dubhe_lab.data import Federation
from dubhe_lab.data.measures import coverage
from dubhe_lab.experiments.findings import selected_data
from dubhe_lab.experiments.settings import DUBHE, ExperimentSettings
from dubhe_lab.report.results import SelectionResult

_ORACLES: Final[Mapping[str, Callable[..., Selector[Any]]]] = {
    "greedy": GreedySelector,
    "flips": FlipsSelector,
    "fedcbs": FedCbsSelector,
    "fedentopt": FedEntOptSelector,
}

StateT = TypeVar("StateT")


def tell_nobody(*_what: object) -> None:
    """Ignore the progress: the default callback."""


def selector_of(method: str, settings: ExperimentSettings, federation: Federation) -> Selector[Any]:
    """Return the selector of one of `METHODS`; label oracles get the federation's label shares."""
    if method in DUBHE:
        return Coordinator(settings.protocol_settings(method))
    wanted, seed = settings.selection.num_participants, settings.federation.seed
    if method == "random":
        return RandomSelector(wanted, seed)
    if method == "powd":
        return PowerOfChoiceSelector(wanted, seed)
    if method == "afl":
        return ActiveSelector(wanted, federation.num_samples, seed)
    if method == "oort":
        return OortSelector(wanted, seed)
    return _ORACLES[method](wanted, federation.label_distributions, seed)


def select(
    method: str,
    settings: ExperimentSettings,
    federation: Federation,
    on_round: Callable[[], None] = tell_nobody,
) -> SelectionResult:
    """Select with a method in every round, call `on_round` after each, and return the results.

    The same seed gives the same selected sets. Methods that select by losses need a model, so they
    cannot select here.
    """
    nodes = simulated_nodes(federation.label_counts)
    rounds = rounds_in_memory(selector_of(method, settings, federation), nodes)
    plans, began = [], time.perf_counter()
    for plan in islice(rounds, settings.num_rounds):
        plans.append(plan)
        on_round()
    return SelectionResult(
        **selected_data(plans, federation),
        coverage_100=coverage([plan.participants for plan in plans[:100]], federation.num_clients),
        seconds=time.perf_counter() - began,
    )


def simulated_nodes(label_counts: NDArray[np.int64]) -> list[NodePolicy]:
    """Return one node per row of label counts, with the row number as alias and no limits."""
    return [policy_without_limits(own, str(row)) for row, own in enumerate(label_counts.tolist())]


def rounds_in_memory(
    selector: Selector[StateT],
    policies: Sequence[NodePolicy],
    answer: Callable[[ClientSession, Fields], Fields | NodeFailure] = answer,
) -> Iterator[Plan]:
    """Run the real protocol without Flower, and yield the plan of each round, forever.

    The nodes have the ids 0, 1, ..., N-1 and are always connected. `answer` calls a node's session
    for its answer.
    """
    sessions = [ClientSession(policy) for policy in policies]
    state = selector.initial_state()
    for server_round in count(1):
        state, outcome = selector.begin_round(state, server_round, range(len(sessions)))
        while isinstance(outcome, Batch):
            asked = outcome.fields.items()
            replies = {node: answer(sessions[node], request) for node, request in asked}
            state, outcome = selector.step(state, replies)
        yield outcome
