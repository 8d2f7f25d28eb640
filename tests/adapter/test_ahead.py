"""On real nodes, rounds are planned while clients of earlier rounds train."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apis import NUM_NODES, SELECTION, Api, Killed, in_both_apis
from supernodes import SuperNodes

from dubhe_flwr.protocol import Batch, Memory, Replies
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.rules import Prices

AHEAD, MAIN = "dubhe-ahead", "MainThread"
NUM_ROUNDS = 9
SETTINGS: dict[str, Any] = {"registration_interval": 4, "rounds_per_draw": 3}

pytestmark = in_both_apis


def supernodes(api: Api, **app: Any) -> SuperNodes:
    """Return real nodes with the federation of the other tests."""
    return SuperNodes(api.client_app(**app), NUM_NODES)


def spent(grid: Any) -> dict[int, tuple[object, ...]]:
    """Return what each partition has spent: draws and epochs, sums entered, sums opened."""
    found: dict[int, tuple[object, ...]] = {}
    for context in grid.contexts.values():
        memory = Memory.from_fields(dict(context.state["dubhe"]))
        assert memory.joined is not None
        registered = memory.joined.registered
        assert registered is not None
        found[int(context.node_config["partition-id"])] = (
            replace(memory.allowance, day=0),
            memory.account.spent,
            registered.num_draws,
            registered.num_sums,
        )
    return found


@pytest.mark.parametrize("rule", [Prices(), SELECTION["rule"]], ids=["prices", "paper"])
def test_rounds_are_planned_while_clients_train(api: Api, rule: Any) -> None:
    """After round 1 no round waits for an exchange; sets, model and accounts stay the same."""
    of_rule = {"rule": rule, "determination": None}
    runs = []
    for grid in (api.grid(), supernodes(api)):
        strategy = api.dubhe(**{**SETTINGS, **of_rule})
        model = api.run(strategy, grid, NUM_ROUNDS)
        stages = [[report.stage for report in plan.stages] for plan in strategy.plans]
        as_bytes = [array.tobytes() for array in model]
        runs.append((strategy.selected, spent(grid), stages, as_bytes))
    assert runs[0] == runs[1]
    first = len(strategy.plans[0].stages)
    assert {thread for thread, _ in grid.exchanges[:first]} == {MAIN}
    assert {thread for thread, _ in grid.exchanges[first:]} == {AHEAD}
    assert all(thread.daemon for thread, _, _ in grid.pushed if thread.name == AHEAD)
    begun = [stage for _, stage, _ in grid.pushed if stage in {"train", "join"}]
    assert begun.index("train") < [i for i, s in enumerate(begun) if s == "join"][1]


def test_stage_timeout_begins_after_training(api: Api) -> None:
    """A node that trains is not late, however long its training takes."""
    driver, batch = api.dubhe(stage_timeout=1e-9).driver, Batch(Envelope(bytes(16), "join", 1), {})
    seen: list[bool] = []

    def send(_batch: Batch, _timeout: float | None, is_over: Any) -> Replies:
        seen.extend((is_over(), is_over()))
        driver.app_answered()
        seen.extend((is_over() or is_over(), is_over()))
        return {}

    driver.training_begins(1)
    driver._send_ahead(send, batch, lambda: False)
    assert seen == [False, False, True, True]


def test_overriding_eligible_turns_off_planning_ahead(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """A subclass's own `eligible` is called in each round, and the log warns of it once."""
    grid, asked = supernodes(api), []

    class Careful(api.ours.Dubhe):  # type: ignore[misc,name-defined]
        def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
            asked.append(server_round)
            return node_ids

    api.run(Careful(api.wrapped(), **{**SELECTION, **SETTINGS}), grid, 4)
    assert {thread for thread, _ in grid.exchanges} == {MAIN}
    assert [stage for _, stage in grid.exchanges].count("participate") == len(asked) == 4
    assert sum("waits for its selection" in line for line in caplog.messages) == 1


def test_nodes_that_left_after_planning_are_replaced(api: Api) -> None:
    """A node that leaves after its round was planned is replaced by another one."""
    strategy, grid = api.dubhe(**SETTINGS), supernodes(api)
    left: list[int] = []

    def leave(stage: str) -> None:
        planned = strategy.driver._ahead._planned
        if stage == "train" and not left and planned:
            left.append(min(planned))
            grid.gone.update(planned[left[0]].plan.participants[:2])

    grid.on_push = leave
    api.run(strategy, grid, NUM_ROUNDS)
    plan = strategy.plans[left[0] - 1]
    assert grid.gone
    assert not grid.gone.intersection(plan.participants)
    assert len(plan.participants) == 6


@pytest.mark.parametrize(
    ("fault", "on_failure"),
    [(OSError("cable"), "random"), (None, "raise")],
    ids=["raises", "is lost"],
)
def test_a_failure_ahead_is_logged_in_its_round(
    api: Api, fault: OSError | None, on_failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure costs no training: the round is selected in its turn, and the log explains it."""
    strategy, grid = api.dubhe(**SETTINGS, on_failure=on_failure), supernodes(api)
    struck: list[int] = []

    def strike(stage: str) -> bool:
        if stage != "participate" or not strategy.plans or struck:
            return False
        struck.append(len(strategy.plans))
        if fault is not None:
            raise fault
        return True

    grid.on_push = strike
    api.run(strategy, grid, NUM_ROUNDS)
    assert len(strategy.plans) == NUM_ROUNDS
    assert not any(plan.fallback for plan in strategy.plans)
    told = [
        i for i, line in enumerate(caplog.messages) if "not planned while clients trained" in line
    ]
    rounds = [i for i, line in enumerate(caplog.messages) if "clients selected in" in line]
    assert len(told) == 1
    assert rounds[struck[0]] < told[0] < rounds[3]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_no_round_is_lost_whatever_happens_when(api: Api, seed: int, tmp_path: Path) -> None:
    """Every round trains, though nodes come and go, requests fail and the server is killed."""
    rng = np.random.default_rng(seed)
    grid, trained = supernodes(api), list[tuple[int, bytes | None]]()

    def strike(_stage: str) -> None:
        what = rng.random()
        if what < 0.1:
            grid.gone ^= {int(rng.choice(list(grid.contexts)))}
        elif what < 0.15:
            raise OSError("cable")
        elif what < 0.2:
            raise Killed

    grid.on_push = strike
    for _ in range(60):
        strategy = api.dubhe(**SETTINGS, on_failure="random", checkpoint_dir=tmp_path)
        with suppress(Killed, OSError, ValueError):
            api.run(strategy, grid, NUM_ROUNDS)
        trained += [(plan.server_round, plan.epoch) for plan in strategy.plans]
        if strategy.rounds_done == NUM_ROUNDS:
            break
    assert strategy.rounds_done == NUM_ROUNDS
    assert {server_round for server_round, _ in trained} == set(range(1, NUM_ROUNDS + 1))
    used = Counter(pair for pair in trained if pair[1] is not None)
    assert max(used.values()) == 1
