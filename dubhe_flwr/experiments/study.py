"""Study selection alone: who would train, round by round, without any model."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count, islice
from typing import Any, Final

import numpy as np

from dubhe_flwr.baselines import GreedySelector, RandomSelector
from dubhe_flwr.baselines.roll_call import RollCallSelector
from dubhe_flwr.core import coverage, generator
from dubhe_flwr.data import Federation
from dubhe_flwr.experiments.findings import (
    SelectedData,
    federation_summary,
    plan_notes,
    provenance,
)
from dubhe_flwr.experiments.in_memory import rounds_in_memory
from dubhe_flwr.experiments.methods import STUDIED
from dubhe_flwr.experiments.plain import plain_rounds
from dubhe_flwr.experiments.study_settings import StudySettings
from dubhe_flwr.protocol import Coordinator, NodePolicy, Plan, Selector
from dubhe_flwr.report import SelectionResult, StudyResults

__all__ = ["draw_federation", "encrypted_plans", "study"]

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe")
_EARLY_ROUNDS: Final = 100


def study(
    settings: StudySettings,
    on_round: Callable[[str, int], None] = lambda _method, _round: None,
    on_answer: Callable[[str, str, int, int], None] = lambda _method, _stage, _answered, _asked: (
        None
    ),
    *,
    methods: Sequence[str] = STUDIED,
) -> StudyResults:
    """Select at random, by Dubhe and by a greedy oracle, all in one federation.

    Parameters
    ----------
    settings : StudySettings
        The federation, and how Dubhe selects in it.
    on_round : callable (str, int) -> None, optional
        Is told method and round after each selection.
    on_answer : callable (str, str, int, int) -> None, optional
        Is told the method, and what `rounds_in_memory` tells, where the study is encrypted.
    methods : sequence of str (default: all)
        Which of the three to look at.

    Returns
    -------
    StudyResults
        The selected sets repeat with the seed, encrypted or not; times do not.

    Raises
    ------
    SettingsError
        If the wanted skew is out of reach.

    Examples
    --------
    >>> results = study(StudySettings(num_clients=100, num_participants=10, num_rounds=3))
    >>> list(results.methods)
    ['random', 'dubhe', 'greedy']
    >>> len(results.methods["dubhe"].emd)
    3
    """
    federation = draw_federation(settings)
    return StudyResults(
        config={**asdict(settings), **provenance(_PACKAGES)},
        federation=federation_summary(federation),
        methods={
            method: _record(
                islice(
                    encrypted_plans(method, settings, federation, partial(on_answer, method))
                    if settings.encrypted
                    else _plain_plans(method, settings, federation),
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
    """Return the federation in which a study selects.

    Parameters
    ----------
    settings : StudySettings
        They fix it.

    Examples
    --------
    >>> print(draw_federation(StudySettings(num_clients=100)))
    synthetic-10/1.5
    """
    return Federation.draw(
        "synthetic",
        num_clients=settings.num_clients,
        num_classes=max(settings.reference_set),
        rho=settings.rho,
        emd=settings.emd,
        generator=generator(settings.seed, "federation"),
        num_samples=settings.num_samples,
        kind=settings.generator,
    )


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
    data = SelectedData.of(selected, federation)
    times_selected = np.bincount(np.concatenate(selected))
    exchanged: dict[str, Any] = {
        "messages": sum(stage.sent for plan in plans for stage in plan.stages),
        "bytes_up": sum(plan.bytes_up for plan in plans),
        "bytes_down": sum(plan.bytes_down for plan in plans),
    }
    return SelectionResult(
        emd=data.emd,
        local_emd=data.local_emd,
        class_proportions=data.class_proportions,
        coverage=data.coverage,
        coverage_100=coverage(selected[:_EARLY_ROUNDS], federation.num_clients),
        effective_clients=float(times_selected.sum() ** 2 / (times_selected**2).sum()),
        seconds=seconds,
        notes=tuple(note for plan in plans for note in plan_notes(plan)),
        fallback_rounds=tuple(plan.server_round for plan in plans if plan.fallback),
        **(exchanged if encrypted else {}),
    )


def encrypted_plans(
    method: str,
    settings: StudySettings,
    federation: Federation,
    on_answer: Callable[[str, int, int], None] = lambda _stage, _answered, _asked: None,
) -> Iterator[Plan]:
    """Yield the plan of each round under encryption, without end.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    settings : StudySettings
        How Dubhe selects.
    federation : Federation
        The data of all clients.
    on_answer : callable (str, int, int) -> None, optional
        As in `rounds_in_memory`.
    """
    nodes = [
        NodePolicy(
            label_counts=partial(np.array, counts),
            alias=str(row),
            seeded_draws=True,
            min_key_bits=min(NodePolicy.min_key_bits, settings.key_bits),
        )
        for row, counts in enumerate(federation.label_counts)
    ]
    selector: Selector[Any] = (
        Coordinator(settings.protocol_settings())
        if method == "dubhe"
        else _baseline(method, settings, federation)
    )
    return rounds_in_memory(selector, nodes, on_answer)


def _plain_plans(method: str, settings: StudySettings, federation: Federation) -> Iterator[Plan]:
    """Yield plans of rounds in which nothing was exchanged."""
    aliases = [str(row) for row in range(federation.num_clients)]
    if method == "dubhe":
        rounds = plain_rounds(settings.protocol_settings(), federation.label_counts)
    else:
        baseline = _baseline(method, settings, federation)
        rounds = (
            baseline.choose(aliases, generator(settings.seed, "baseline", server_round))
            for server_round in count(1)
        )
    for server_round, rows in enumerate(rounds, start=1):
        chosen = rows.tolist()
        yield Plan(server_round, tuple(chosen), tuple(aliases[row] for row in chosen))


def _baseline(method: str, settings: StudySettings, federation: Federation) -> RollCallSelector:
    if method == "greedy":
        return GreedySelector(
            settings.num_participants, federation.label_distributions, settings.seed
        )
    return RandomSelector(settings.num_participants, settings.seed)
