"""Whatever fails at any stage of a Flower app, the run trains all its rounds."""

import logging
from typing import Any, get_args

import pytest
from apis import FIT, TRAIN, Api, in_both_apis

from dubhe_flwr.protocol import Stage
from dubhe_flwr.rules import Paper
from dubhe_flwr.testing import Fault, FaultKind, FaultyGrid

NUM_NODES = 12
NUM_ROUNDS = 2
STAGES = ("join", "appoint", "register", "settle", "participate", "determine", "train")
KINDS = sorted(get_args(FaultKind))
IN_TURN = [(kind, (FIT, TRAIN)[number % 2]) for number, kind in enumerate(KINDS)]


def run(
    api: Api, *faults: Fault, num_rounds: int = NUM_ROUNDS, grid: Any = None, **settings: Any
) -> tuple[Any, FaultyGrid, int]:
    """Run an app that selects 4 clients; return strategy, grid and the number of trained rounds."""
    wrapped, trained = api.wrapped(), []
    name = "aggregate_fit" if api.is_fit else "aggregate_train"
    aggregate = getattr(wrapped, name)

    def watched(*arguments: Any) -> Any:
        outcome = aggregate(*arguments)
        trained.append(outcome[0] is not None)
        return outcome

    setattr(wrapped, name, watched)
    usual = {"num_participants": 4, "on_failure": "random", "wait_timeout": 0.0}
    strategy = api.dubhe(wrapped, **{**usual, **settings})
    faulty = FaultyGrid(grid or api.grid(num_nodes=NUM_NODES), faults, seed=5)
    api.run(strategy, faulty, num_rounds)
    return strategy, faulty, sum(trained)


def test_every_stage_is_listed() -> None:
    """Faults are injected at all stages that a run with the paper's rule has."""
    assert {*STAGES, "hello", "open"} == {*Stage, "train"}


@pytest.mark.parametrize(("kind", "api"), IN_TURN, ids=str)
def test_faults_at_all_stages(api: Api, kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The run survives if a tenth of all messages is hit by a fault."""
    # A corrupt update concerns the wrapped strategy.
    stages = STAGES[:-1] if "corrupt" in kind else STAGES
    fault = Fault(kind, stages, 0.1, times=6 if kind == "kill" else None)
    settings = {"rule": Paper((1, 2, 4), "search"), "registration_interval": 2}
    strategy, grid, trained = run(api, fault, num_rounds=4, **settings)
    assert set(grid.injected) <= {(kind, stage) for stage in stages}
    assert trained == 4
    # A corrupt number ends the epoch, and the next one has fewer nodes.
    fewest = 3 if kind == "corrupt_reply" else 4
    assert all(fewest <= len(set(plan.participants)) <= 4 for plan in strategy.plans)
    assert sum(grid.injected.values()) > 5
    assert not any(plan.fallback for plan in strategy.plans)
    assert "raised an exception" not in caplog.text  # nodes refuse corrupt requests


@in_both_apis
def test_a_round_in_which_no_node_answers(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """The round falls back to random selection, as an error in the log; the next is Dubhe's."""
    with caplog.at_level(logging.ERROR, logger="flwr"):
        strategy, _, trained = run(api, Fault("drop_reply", "join", times=NUM_NODES))
    assert [plan.fallback for plan in strategy.plans] == [True, False]
    assert trained == NUM_ROUNDS
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        "dubhe: round 1 was NOT selected by Dubhe: 4 clients were chosen at random"
    ]


@in_both_apis
def test_a_round_without_any_node_is_skipped(api: Api) -> None:
    """If all nodes leave, the run ends without a crash and trains no further round."""
    faults = [Fault("kill", "determine"), Fault("kill", "train")]
    strategy, _, trained = run(api, *faults, num_rounds=5)
    assert trained == 0
    assert strategy.plans[-1].participants == ()
