"""Whatever fails at any stage of a Flower app, the run trains all its rounds."""

from typing import Any, get_args

import pytest
from apis import FIT, TRAIN, Api

from dubhe_flwr.protocol import Stage
from dubhe_flwr.rules import Paper
from dubhe_flwr.testing import Fault, FaultKind, FaultyGrid

STAGES = [*({*Stage} - {"hello", "open"}), "train"]
"""The stages of a run with the paper's rule."""
KINDS = sorted(get_args(FaultKind))
IN_TURN = [(kind, (FIT, TRAIN)[number % 2]) for number, kind in enumerate(KINDS)]


@pytest.mark.parametrize(("kind", "api"), IN_TURN, ids=str)
def test_faults_at_all_stages(api: Api, kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The run survives if a tenth of all messages is hit by a fault."""
    wrapped, trained = api.wrapped(), []
    name = "aggregate_fit" if api.is_fit else "aggregate_train"
    aggregate = getattr(wrapped, name)

    def watched(*arguments: Any) -> Any:
        outcome = aggregate(*arguments)
        trained.append(outcome[0] is not None)
        return outcome

    setattr(wrapped, name, watched)
    # A corrupt update concerns the wrapped strategy.
    stages = STAGES[:-1] if "corrupt" in kind else STAGES
    fault = Fault(kind, stages, 0.1, times=6 if kind == "kill" else None)
    grid = FaultyGrid(api.grid(num_nodes=12), [fault], seed=5)
    settings = {"num_participants": 4, "on_failure": "random", "wait_timeout": 0.0}
    settings |= {"rule": Paper((1, 2, 4), "search"), "registration_interval": 2}
    strategy = api.dubhe(wrapped, **settings)
    api.run(strategy, grid, 4)
    assert set(grid.injected) <= {(kind, stage) for stage in stages}
    assert trained == [True] * 4
    # A corrupt number ends the epoch, and the next one has fewer nodes.
    fewest = 3 if kind == "corrupt_reply" else 4
    assert all(fewest <= len(set(plan.participants)) <= 4 for plan in strategy.plans)
    assert sum(grid.injected.values()) > 5
    assert not any(plan.fallback for plan in strategy.plans)
    assert "raised an exception" not in caplog.text  # nodes refuse corrupt requests
