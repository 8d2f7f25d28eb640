"""Whatever goes wrong at whatever stage of a Flower app, its run ends with its rounds trained."""

import logging
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from flwr.app import Context
from flwr.server.strategy import FedAvg as FitFedAvg
from flwr.serverapp.strategy import FedAvg
from support import (
    NUM_CLASSES,
    SELECTION,
    Recorded,
    initial_parameters,
    main_server_app,
    message_client_app,
    numpy_client_app,
    skewed_label_counts,
    strategy_server_app,
)

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.rules import Paper, Prices, Rule
from dubhe_flwr.server import Dubhe as FitDubhe
from dubhe_flwr.serverapp import Dubhe
from dubhe_flwr.simulation import InProcessGrid, run_on_grid
from dubhe_flwr.testing import Fault, FaultKind, FaultyGrid

NUM_NODES = 12
NUM_ROUNDS = 2
STAGES = ("join", "keygen", "register", "settle", "participate", "determine", "train")
PAPER, SEARCH, PRICES = SELECTION["rule"], Paper((1, NUM_CLASSES), "search"), Prices()
PLAYS = [
    pytest.param(stage, rule, id=f"{stage}-{rule.name}")
    for stage in STAGES
    for rule in ((SEARCH, PRICES) if stage == "settle" else (PAPER,))
]
LOSSES: tuple[FaultKind, ...] = ("drop_request", "drop_reply", "error")
OTHERS = sorted(set(get_args(FaultKind)) - set(LOSSES))


class RecordedDubhe(Recorded, Dubhe):
    """Keeps its plans."""


class RecordedFitDubhe(Recorded, FitDubhe):
    """Keeps its plans."""


def options(**overrides: Any) -> dict[str, Any]:
    """Return a selection of 4."""
    return {
        **SELECTION,
        "num_participants": 4,
        "on_failure": "random",
        "wait_timeout": 0.0,
        **overrides,
    }


class Trained:
    """Counts the rounds after which there was a new model."""

    def __init__(self) -> None:
        self.rounds = 0

    def message(self, strategy: FedAvg) -> None:
        """Watch a strategy of the Message API."""
        aggregate = strategy.aggregate_train

        def watched(server_round: int, replies: Any) -> Any:
            arrays, metrics = aggregate(server_round, replies)
            self.rounds += arrays is not None
            return arrays, metrics

        strategy.aggregate_train = watched  # type: ignore[method-assign]

    def fit(self, strategy: FitFedAvg) -> None:
        """Watch a strategy with `configure_fit`."""
        aggregate = strategy.aggregate_fit

        def watched(server_round: int, results: Any, failures: Any) -> Any:
            parameters, metrics = aggregate(server_round, results, failures)
            self.rounds += parameters is not None
            return parameters, metrics

        strategy.aggregate_fit = watched  # type: ignore[method-assign]


def nodes_for(rule: Rule) -> tuple[int, Callable[[Context], Any]]:
    """Return how many nodes there are, and their label counts; prices are found among many."""
    num_nodes = 32 if rule is PRICES else NUM_NODES
    counts = skewed_label_counts(num_nodes)
    return num_nodes, lambda context: counts[int(context.node_config["partition-id"])]


def run_by_message(faults: list[Fault], num_rounds: int = NUM_ROUNDS, **settings: Any) -> Any:
    """Run an app of the Message API; return its strategy, its grid and the rounds it trained."""
    inner, trained = FedAvg(fraction_evaluate=0.0), Trained()
    trained.message(inner)
    strategy = RecordedDubhe(inner, **settings)
    num_nodes, counts = nodes_for(settings["rule"])
    grid = FaultyGrid(InProcessGrid(message_client_app(counts), num_nodes), faults, seed=5)
    run_on_grid(main_server_app(strategy, num_rounds), grid)
    return strategy, grid, trained.rounds


def run_by_fit(faults: list[Fault], num_rounds: int = NUM_ROUNDS, **settings: Any) -> Any:
    """Run an app with `configure_fit`, as above."""
    inner = FitFedAvg(initial_parameters=initial_parameters(), fraction_evaluate=0.0)
    trained = Trained()
    trained.fit(inner)
    strategy = RecordedFitDubhe(inner, **settings)
    num_nodes, counts = nodes_for(settings["rule"])
    grid = FaultyGrid(InProcessGrid(numpy_client_app(counts), num_nodes), faults, seed=5)
    run_on_grid(strategy_server_app(strategy, num_rounds), grid)
    return strategy, grid, trained.rounds


@pytest.mark.parametrize("share", [0.1, 0.2, 0.33, 0.5])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(("stage", "rule"), PLAYS)
def test_losses_at_every_stage(stage: str, rule: Rule, kind: FaultKind, share: float) -> None:
    """Up to a third lost, every round trains; at half, the run still ends."""
    run = run_by_fit if (stage, kind) == ("train", "error") else run_by_message
    strategy, grid, trained = run([Fault(kind, stage, share)], **options(rule=rule))
    assert set(grid.injected) <= {(kind, stage)}
    assert [plan.server_round for plan in strategy.plans] == [1, 2]
    for plan in strategy.plans:
        assert 1 <= len(set(plan.participants)) == len(plan.participants) <= 4
        assert plan.fallback == any("at random" in note for note in plan.notes)
    if share <= 1 / 3:
        assert trained == NUM_ROUNDS
        assert [len(plan.participants) for plan in strategy.plans] == [4, 4]


@pytest.mark.parametrize("rule", [PAPER, SEARCH, PRICES], ids=["paper", "search", "prices"])
def test_nothing_lost(rule: Rule) -> None:
    """Without faults no round goes by chance, nothing is noted, and there is every stage."""
    strategy, _, trained = run_by_message([], **options(rule=rule))
    assert trained == NUM_ROUNDS
    played = {report.stage for report in strategy.plans[0].stages}
    assert played == set(STAGES) - {"train"} - ({"settle"} if rule is PAPER else set())
    assert [(plan.fallback, plan.notes) for plan in strategy.plans] == [(False, ())] * 2


@pytest.mark.parametrize("rule", [SEARCH, PRICES], ids=["search", "prices"])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_faults_at_all_stages(kind: Any, rule: Rule) -> None:
    """A tenth of all messages late, twice, out of order, spoilt or old, and some nodes killed."""
    settings = options(rule=rule, registration_interval=2)
    # A spoilt update is the wrapped strategy's business.
    stages = STAGES[:-1] if "corrupt" in kind or "replay" in kind else STAGES
    for run in (run_by_message, run_by_fit):
        fault = Fault(kind, stages, 0.1, times=6 if kind == "kill" else None)
        strategy, grid, trained = run([fault], num_rounds=5, **settings)
        assert trained == 5
        for plan in strategy.plans:
            # A spoilt registration costs its epoch, and the next one has fewer nodes.
            short = kind == "corrupt_reply" and "Only 3 of 4 clients can train." in plan.notes
            assert len(set(plan.participants)) == 4 - short
        assert sum(grid.injected.values()) > 5


@pytest.mark.parametrize("stage", ["keygen", "determine"])
def test_a_killed_agent_is_replaced(stage: str) -> None:
    """Another one makes a fresh key, or determines, and the round is Dubhe's."""
    strategy, grid, trained = run_by_message([Fault("kill", stage, times=1)], **options())
    assert len(grid.killed) == 1
    plan = strategy.plans[0]
    reports = [report for report in plan.stages if report.stage == stage]
    assert [(report.accepted, report.dropped) for report in reports] == [
        (0, {"no reply": 1}),
        (1, {}),
    ]
    assert "An agent" in plan.notes[0]
    assert not any(p.fallback for p in strategy.plans)
    assert trained == NUM_ROUNDS
    assert not grid.killed & set(strategy.plans[1].participants)


@pytest.mark.parametrize("run", [run_by_message, run_by_fit])
def test_all_nodes_silent_for_a_round(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Loud in the log and in the plan: chance chose, and the next round is Dubhe's again."""
    faults = [Fault("drop_reply", "join", times=NUM_NODES)]
    with caplog.at_level(logging.ERROR, logger="flwr"):
        strategy, _, trained = run(faults, **options())
    assert [plan.fallback for plan in strategy.plans] == [True, False]
    assert trained == NUM_ROUNDS
    said = [record.getMessage() for record in caplog.records if record.name == "flwr"]
    assert said == [
        "dubhe: round 1 was NOT selected by Dubhe: 4 clients were chosen at random",
    ]


def test_the_typed_error_is_the_other_choice() -> None:
    """The Message API hands it to the app."""
    with pytest.raises(QuorumError, match="12 no reply at join"):
        run_by_message([Fault("drop_reply", "join")], **options(on_failure="raise"))


@pytest.mark.parametrize("run", [run_by_message, run_by_fit])
def test_a_round_without_any_node_is_skipped(run: Any) -> None:
    """All nodes leave: the run ends without a crash, and trains nothing more."""
    strategy, _, trained = run([Fault("kill", "determine"), Fault("kill", "train")], 3, **options())
    assert trained == 0
    assert strategy.plans[-1].participants == ()


def test_a_node_that_comes_late_trains_from_the_next_epoch_on() -> None:
    """Nodes that appear in the middle of a run register with the next epoch."""

    class Filling(InProcessGrid):
        def get_node_ids(self) -> list[int]:
            return list(self.contexts)[: 8 + len(strategy.__dict__.get("plans", []))]

    strategy = RecordedDubhe(
        FedAvg(fraction_evaluate=0.0), **options(max_unregistered=0.25), expected_nodes=8
    )
    run_on_grid(main_server_app(strategy, 7), Filling(message_client_app(), NUM_NODES))
    registered = [plan.num_registered for plan in strategy.plans]
    assert registered == [8, 8, 8, 11, 11, 11, 11]
    assert not any(plan.fallback or plan.notes for plan in strategy.plans)


def test_a_node_that_lost_its_state_comes_back_with_the_next_epoch() -> None:
    """A SuperNode restarted without its state answers no stage, and registers anew in time."""

    class Restarting(InProcessGrid):
        def get_node_ids(self) -> list[int]:
            if len(strategy.__dict__.get("plans", [])) == 1:
                victim = list(self.contexts)[3]
                self.contexts[victim].state.config_records.clear()
            return list(self.contexts)

    strategy = RecordedDubhe(
        FedAvg(fraction_evaluate=0.0), **options(registration_interval=4, tries=2)
    )
    run_on_grid(main_server_app(strategy, 6), Restarting(message_client_app(), NUM_NODES))
    errors = [
        sum(report.dropped.get("error reply", 0) for report in plan.stages)
        for plan in strategy.plans
    ]
    assert errors == [0, 1, 1, 1, 0, 0]
    assert all(3 not in selected for selected in strategy.selected[1:4])
    assert [plan.num_registered for plan in strategy.plans] == [NUM_NODES] * 6


def test_a_run_with_faults_repeats_bit_for_bit() -> None:
    """Same seeds, same faults, same model."""
    models = []
    for _ in range(2):
        inner = FedAvg(fraction_evaluate=0.0)
        strategy = RecordedDubhe(inner, **options())
        faults = [Fault("drop_reply", share=0.2), Fault("duplicate", share=0.2), Fault("reorder")]
        grid = FaultyGrid(InProcessGrid(message_client_app(), NUM_NODES), faults)
        context = run_on_grid(main_server_app(strategy, 3), grid)
        arrays = context.state.array_records["arrays"].to_numpy_ndarrays()
        models.append((strategy.selected, [np.asarray(array).tobytes() for array in arrays]))
    assert models[0] == models[1]
