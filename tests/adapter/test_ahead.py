"""On real nodes, rounds are planned while clients of earlier rounds train."""

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from apis import NUM_NODES, SELECTION, Api, Killed, in_both_apis
from protocol.nodes import signing_key
from supernodes import SuperNodes

from dubhe_flwr.adapter import ahead
from dubhe_flwr.adapter.ahead import PlannedRound
from dubhe_flwr.protocol import Batch, Plan, Stage
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.rules import Prices

AHEAD, MAIN = "dubhe-ahead", "MainThread"
NUM_ROUNDS = 9
SETTINGS: dict[str, Any] = {"registration_interval": 4, "rounds_per_draw": 3}

pytestmark = in_both_apis


def supernodes(api: Api, **app: Any) -> SuperNodes:
    """Return real nodes with the federation of the other tests."""
    return SuperNodes(api.client_app(**app), NUM_NODES)


def spent(grid: Any) -> list[tuple[object, ...]]:
    """Return what each node has spent: epochs, draws, sums entered, sums opened."""
    states = [dict(context.state["dubhe"]) for context in grid.contexts.values()]
    memories: list[Any] = list(map(Memory.from_fields, states))
    days = [(memory.allowance.num_epochs, memory.allowance.num_draws) for memory in memories]
    sums = [(memory.budget.spent, memory.joined.registered.num_sums) for memory in memories]
    return list(zip(days, sums, strict=True))


@pytest.mark.parametrize(
    "settings",
    [{**SETTINGS, "rule": Prices()}, {"registration_interval": 9, "rounds_per_draw": 6}],
    ids=["registrations", "draws"],
)
def test_rounds_are_planned_while_clients_train(api: Api, settings: dict[str, Any]) -> None:
    """After round 1, no round waits for an exchange; nothing else changes, not even the budgets."""
    runs = []
    for grid in (api.grid(), supernodes(api)):
        strategy = api.dubhe(**settings, determination=None)
        model = api.run(strategy, grid, NUM_ROUNDS)
        stages = [[report.stage for report in plan.stages] for plan in strategy.plans]
        as_bytes = [array.tobytes() for array in model]
        kept = strategy.state_dict()["selector"]
        runs.append((strategy.selected, spent(grid), kept, stages, as_bytes))
    assert runs[0] == runs[1]
    first = len(strategy.plans[0].stages)
    assert {thread for thread, _ in grid.exchanges[:first]} == {MAIN}
    assert {thread for thread, _ in grid.exchanges[first:]} == {AHEAD}
    assert all(thread.daemon for thread, _ in grid.pushed if thread.name == AHEAD)
    begun = [stage for _, stage in grid.pushed]
    assert begun.index("train") < begun.index("participate", begun.index("participate") + 1)


@pytest.mark.parametrize(("stage", "num_rounds"), [("join", 15), ("participate", 5)])
def test_planning_begins_in_time(
    api: Api, stage: Stage, num_rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration begins fifteen rounds before the round that needs it, and a draw five."""
    planner, batch = api.dubhe().driver._ahead, Batch(Envelope(bytes(16), stage, 1), {})

    def begin_round(state: Any, server_round: int, *_nodes: Any) -> tuple[Any, Batch | Plan]:
        return state, batch if server_round == 40 else Plan(server_round, (), ())

    monkeypatch.setattr(planner, "_selector", Mock(begin_round=begin_round))
    assert planner._next_due(40 - num_rounds - 1, None, ()) is None
    assert planner._next_due(40 - num_rounds, None, ()) == (40, None, batch)
    assert set(planner._planned) == set(range(40 - num_rounds + 1, 40))


def test_planning_begins_after_the_last_training_message(api: Api) -> None:
    """Messages are pushed one by one or together, and others may follow, such as evaluations."""
    for pushed, begins in (((1, 1, 1, 1), 2), ((3, 2), 0), ((2, 2), 1)):
        planner = api.dubhe().driver._ahead
        planner.expect(3)
        answers = [planner.all_pushed(number) for number in pushed]
        assert answers == [place == begins for place in range(len(pushed))]


def test_overriding_eligible_turns_off_planning_ahead(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """A subclass's own `eligible` is called in each round, and the log warns of it once."""
    grid, asked = supernodes(api), []

    class Careful(api.ours.Dubhe):  # type: ignore[misc,name-defined]
        def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
            asked.append(server_round)
            return node_ids

    keys = (signing_key(row).public_key() for row in range(NUM_NODES))  # can be read only once
    settings = {**SELECTION, **SETTINGS, "trusted_keys": keys}
    strategy = Careful(api.wrapped(), **settings)
    assert signing_key(2).public_key() in strategy.settings.trusted
    api.run(Careful(api.wrapped(), **{**SELECTION, **SETTINGS}), grid, 4)
    assert {thread for thread, _ in grid.exchanges} == {MAIN}
    assert [stage for _, stage in grid.exchanges].count("participate") + 1 == len(asked) == 4
    assert sum("waits for its selection" in line for line in caplog.messages) == 1


def test_nodes_that_are_back_take_part(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage while rounds are planned costs clients only in the rounds that were then drawn."""
    strategy, grid = api.dubhe(registration_interval=20, rounds_per_draw=6), supernodes(api)
    everybody = list(grid.contexts)

    def connected() -> list[int]:
        is_outage = threading.current_thread().name == AHEAD and len(strategy.plans) == 2
        return everybody[:5] if is_outage else everybody

    monkeypatch.setattr(grid, "get_node_ids", connected)
    api.run(strategy, grid, 10)
    sizes = [6] * 6 + [5] * 4
    assert [len(plan.participants) for plan in strategy.plans] == sizes
    assert [len(plan.notes) for plan in strategy.plans] == [size < 6 for size in sizes]


@pytest.mark.parametrize(
    ("fault", "on_failure"),
    [(OSError("cable"), "random"), (None, "raise")],
    ids=["raises", "is lost"],
)
def test_a_failure_ahead_costs_no_training(
    api: Api, fault: OSError | None, on_failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says which round failed, once, and that round is selected in its turn."""
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
    (told,) = [line for line in caplog.messages if "could not be planned" in line]
    failed = int(told.split()[2])
    assert struck[0] < failed <= struck[0] + 4
    waited = [stage for thread, stage in grid.exchanges if thread == MAIN]
    assert waited.count("participate") == 1


def test_no_round_is_lost_where_no_thread_starts(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each round is then selected in its turn, and the log says why."""
    refused = Mock(start=Mock(side_effect=RuntimeError("can't start new thread")))
    monkeypatch.setattr(ahead, "Thread", lambda **_: refused)
    strategy, grid = api.dubhe(**SETTINGS), supernodes(api)
    api.run(strategy, grid, NUM_ROUNDS)
    assert len(strategy.plans) == NUM_ROUNDS
    assert not any(plan.fallback for plan in strategy.plans)
    assert {thread for thread, _ in grid.exchanges} == {MAIN}
    assert "is selected when it begins: can't start new thread" in caplog.text


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_no_round_is_lost_whatever_happens_when(api: Api, seed: int, tmp_path: Path) -> None:
    """Every round trains, though nodes come and go, connections break and the server is killed."""
    rng = np.random.default_rng(seed)
    grid, trained = supernodes(api), list[tuple[int, bytes | None]]()
    rule = {} if seed % 2 else {"rule": Prices(), "determination": None}  # with a committee

    def strike(_stage: str = "") -> None:
        what = rng.random()
        if what < 0.06 and grid.asked:  # which may be an agent, or the whole committee
            grid.gone.add(int(rng.choice(grid.asked)))
        elif what < 0.12 and grid.gone:
            grid.gone.discard(int(rng.choice(sorted(grid.gone))))
        elif what < 0.14:
            raise OSError("cable")
        elif what < 0.16:
            raise Killed if rng.random() < 0.5 else KeyboardInterrupt

    grid.on_push = grid.on_pull = strike
    for _ in range(400):
        strategy = api.dubhe(**SETTINGS, **rule, on_failure="random", checkpoint_dir=tmp_path)
        with suppress(Killed, KeyboardInterrupt, OSError, ValueError):
            api.run(strategy, grid, NUM_ROUNDS)
        trained += [(plan.server_round, plan.epoch) for plan in strategy.plans]
        if strategy.rounds_done == NUM_ROUNDS:
            break
    assert strategy.rounds_done == NUM_ROUNDS
    assert {server_round for server_round, _ in trained} == set(range(1, NUM_ROUNDS + 1))
    used = Counter(pair for pair in trained if pair[1] is not None)
    assert max(used.values()) == 1


def test_an_interrupted_run_plans_no_further(api: Api) -> None:
    """After Ctrl-C during training, the planning thread ends."""
    strategy, grid = api.dubhe(registration_interval=20, rounds_per_draw=4), supernodes(api)
    interrupt = Mock(side_effect=KeyboardInterrupt)
    strategy.strategy.aggregate_fit = strategy.strategy.aggregate_train = interrupt
    with pytest.raises(KeyboardInterrupt):
        api.run(strategy, grid, NUM_ROUNDS)
    if api.is_fit:  # the process ends without a word to the strategy
        strategy.driver.stop()
    for thread in threading.enumerate():
        if thread.name == AHEAD:
            thread.join(60)
            assert not thread.is_alive()


def test_a_late_plan_says_what_it_waits_for(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the round that waits, and the exchange that it waits for.

    A round that is already planned neither waits nor speeds up the next round's exchanges.
    """
    late, planned = api.dubhe().driver._ahead, PlannedRound(Plan(5, (), ()), None)
    late._is_running, late._waits_for = True, "8 nodes have answered join"
    hurry = Mock(side_effect=late._pacing.hurry)
    monkeypatch.setattr(late._pacing, "hurry", hurry)
    monkeypatch.setattr(ahead, "_SILENT_SECONDS", 0.0)

    class Arrives(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            late._keep(6, None, {5: planned, 6: planned})

    monkeypatch.setattr(logging.getLogger("flwr"), "handlers", [Arrives()])
    caplog.clear()
    assert late.take(5) is late.take(6) is planned
    hurry.assert_called_once()
    assert caplog.messages == ["dubhe: round 5 waits until 8 nodes have answered join"]
