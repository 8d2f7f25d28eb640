"""Study selection alone: which clients would train in each round, without training a model."""

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
from dubhe_lab.experiments.findings import federation_summary, provenance, selected_data
from dubhe_lab.experiments.settings import (
    DUBHE,
    STUDIED,
    ExperimentSettings,
    StudySettings,
    check_participants,
)
from dubhe_lab.report.results import SelectionResult, StudyResults

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe")
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


def study(
    settings: StudySettings,
    on_round: Callable[[str, int, float | None], None] = tell_nobody,
    *,
    methods: Sequence[str] = STUDIED,
) -> StudyResults:
    """Select with each method in the same federation, and return the results.

    When a method begins (round 0) and after each of its selections, `on_round` gets the method, the
    round and None, since nothing is evaluated. The same seed gives the same selected sets,
    encrypted or not. Methods that select by losses need a model, so they are not for studies.
    """
    check_participants(settings.selection.num_participants, settings.federation.num_clients)
    federation = settings.federation.draw("synthetic", settings.classes)
    found = {}
    for method in methods:
        selector = selector_of(method, settings, federation)
        nodes = simulated_nodes(federation.label_counts)
        on_round(method, 0, None)
        plans, began = [], time.perf_counter()
        for plan in islice(rounds_in_memory(selector, nodes), settings.num_rounds):
            plans.append(plan)
            on_round(method, plan.server_round, None)
        seconds = time.perf_counter() - began
        found[method] = _result(plans, federation, seconds, encrypted=settings.encrypted)
    return StudyResults(
        config={**settings.flat(), **provenance(_PACKAGES)},
        federation=federation_summary(federation),
        methods=found,
    )


def _result(
    plans: Sequence[Plan], federation: Federation, seconds: float, *, encrypted: bool
) -> SelectionResult:
    selected = [plan.participants for plan in plans]
    times_selected = np.bincount(np.concatenate(selected))
    exchanged: dict[str, Any] = {
        "messages": sum(stage.sent for plan in plans for stage in plan.stages),
        "bytes_up": sum(plan.bytes_up for plan in plans),
        "bytes_down": sum(plan.bytes_down for plan in plans),
    }
    return SelectionResult(
        **selected_data(plans, federation),
        coverage_100=coverage(selected[:100], federation.num_clients),
        effective_clients=float(times_selected.sum() ** 2 / (times_selected**2).sum()),
        seconds=seconds,
        **(exchanged if encrypted else {}),
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
