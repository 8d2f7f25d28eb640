"""Study selection alone: who would train, round by round, without any model."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import Any, Final, TypeVar

import numpy as np

from dubhe_flwr.core import coverage
from dubhe_flwr.data import Federation
from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.experiments.baseline import baseline
from dubhe_flwr.experiments.findings import (
    federation_summary,
    plan_notes,
    provenance,
    selected_data,
)
from dubhe_flwr.experiments.settings import STUDIED, StudySettings
from dubhe_flwr.protocol import (
    Batch,
    ClientSession,
    Coordinator,
    Fields,
    NodeFailure,
    NodePolicy,
    Plan,
    Selector,
)
from dubhe_flwr.report import SelectionResult, StudyResults

__all__ = ["draw_federation", "plans_of", "rounds_in_memory", "study"]

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe")
_EARLY_ROUNDS: Final = 100

StateT = TypeVar("StateT")


def study(
    settings: StudySettings,
    on_round: Callable[[str, int], None] = lambda _method, _round: None,
    on_answer: Callable[[str, str, int, int], None] = lambda _method, _stage, _answered, _asked: (
        None
    ),
    *,
    methods: Sequence[str] = STUDIED,
) -> StudyResults:
    """Select at random, by Dubhe and by a greedy oracle, or some of them, all in one federation.

    `on_round` is told method and round after each selection; `on_answer` the method and what
    `rounds_in_memory` tells. The selected sets repeat with the seed,
    encrypted or not.

    Raises
    ------
    SettingsError
        If the wanted skew is out of reach.
    """
    federation = draw_federation(settings)
    return StudyResults(
        config={**settings.flat(), **provenance(_PACKAGES)},
        federation=federation_summary(federation),
        methods={
            method: _record(
                islice(
                    plans_of(method, settings, federation, partial(on_answer, method)),
                    settings.num_rounds,
                ),
                federation,
                partial(on_round, method),
                encrypted=settings.encrypted,
            )
            for method in methods
        },
    )


def draw_federation(settings: StudySettings) -> Federation:
    """Return the federation in which a study selects."""
    return settings.federation.draw("synthetic", max(settings.selection.reference_set))


def _record(
    rounds: Iterator[Plan],
    federation: Federation,
    on_round: Callable[[int], None],
    *,
    encrypted: bool,
) -> SelectionResult:
    plans = []
    began = time.perf_counter()
    for plan in rounds:
        plans.append(plan)
        on_round(plan.server_round)
    seconds = time.perf_counter() - began
    selected = [plan.participants for plan in plans]
    times_selected = np.bincount(np.concatenate(selected))
    exchanged: dict[str, Any] = {
        "messages": sum(stage.sent for plan in plans for stage in plan.stages),
        "bytes_up": sum(plan.bytes_up for plan in plans),
        "bytes_down": sum(plan.bytes_down for plan in plans),
    }
    return SelectionResult(
        **selected_data(selected, federation),
        coverage_100=coverage(selected[:_EARLY_ROUNDS], federation.num_clients),
        effective_clients=float(times_selected.sum() ** 2 / (times_selected**2).sum()),
        seconds=seconds,
        notes=tuple(note for plan in plans for note in plan_notes(plan)),
        fallback_rounds=tuple(plan.server_round for plan in plans if plan.fallback),
        **(exchanged if encrypted else {}),
    )


def plans_of(
    method: str,
    settings: StudySettings,
    federation: Federation,
    on_answer: Callable[[str, int, int], None] = lambda _stage, _answered, _asked: None,
) -> Iterator[Plan]:
    """Yield the plan of each round, without end."""
    nodes = [
        NodePolicy(
            label_counts=partial(np.array, counts),
            alias=str(row),
            simulated=True,
            min_key_bits=min(NodePolicy.min_key_bits, settings.selection.key_bits),
        )
        for row, counts in enumerate(federation.label_counts)
    ]
    selector: Selector[Any] = (
        Coordinator(settings.protocol_settings())
        if method == "dubhe"
        else baseline(
            method, settings.selection.num_participants, federation, settings.federation.seed
        )
    )
    return rounds_in_memory(selector, nodes, on_answer)


def rounds_in_memory(
    selector: Selector[StateT],
    policies: Sequence[NodePolicy],
    on_answer: Callable[[str, int, int], None] = lambda _stage, _answered, _asked: None,
) -> Iterator[Plan]:
    """Yield the plan of each round, without end, of the protocol as it is but without Flower.

    The nodes have the ids 0, 1, ..., N-1 and are always there. `on_answer` is told the stage, how
    many nodes have answered and how many are asked, before each answer.
    """
    sessions = [ClientSession(policy) for policy in policies]
    state = selector.initial_state()
    for server_round in count(1):
        state, outcome = selector.begin_round(state, server_round, range(len(sessions)))
        while isinstance(outcome, Batch):
            replies: dict[int, Fields | NodeFailure] = {}
            for node, request in outcome.fields.items():
                on_answer(outcome.header.stage, len(replies), len(outcome.requests))
                replies[node] = _answer(sessions[node], request)
            state, outcome = selector.step(state, replies)
        yield outcome


def _answer(session: ClientSession, request: Mapping[str, object]) -> Fields | NodeFailure:
    try:
        return session.handle(request)
    except ProtocolError as error:
        return NodeFailure(str(error))
