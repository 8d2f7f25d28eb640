"""Tests of a federation whose few real nodes answer for all nodes."""

from typing import Any

import pytest
from protocol.server import REGISTRATION

from dubhe_flwr.protocol import Batch, Plan
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_lab.bench.protocol import measured_rounds, server_and_nodes
from dubhe_lab.bench.recycled import RecycledNodes


def nodes_and_server(method: str, number: int, num_real: int, **given: Any) -> Any:
    """Return a server that selects six nodes with a small key, and the nodes."""
    return server_and_nodes(method, number, num_real, key_bits=512, num_participants=6, **given)


def play(server: Any, nodes: RecycledNodes, num_rounds: int) -> list[Plan]:
    """Select for some rounds."""
    state: CoordinatorState = server.initial_state()
    plans = []
    for server_round in range(1, num_rounds + 1):
        state, outcome = server.begin_round(state, server_round, list(nodes.ids))
        while isinstance(outcome, Batch):
            state, outcome = server.step(state, nodes.answer(outcome))
        plans.append(outcome)
    return plans


@pytest.mark.parametrize("method", ["dubhe-paper", "dubhe"])
@pytest.mark.parametrize("num_real", [7, 50])
@pytest.mark.parametrize("rounds_per_draw", [1, 3])
def test_the_whole_protocol_runs(method: str, num_real: int, rounds_per_draw: int) -> None:
    """No reply is dropped: all sums decrypt, and real agents determine the participants."""
    server, nodes = nodes_and_server(method, 50, num_real, rounds_per_draw=rounds_per_draw)
    plans = play(server, nodes, 4)
    for plan in plans:
        assert not plan.notes
        assert len(set(plan.participants)) == 6
        assert plan.num_registered == 50
        assert all(stage.accepted == stage.sent for stage in plan.stages)
    assert len({plan.participants for plan in plans}) == 4
    stages = [stage.stage for stage in plans[0].stages]
    assert stages[:3] == REGISTRATION
    assert stages[-1] == "determine"
    assert set(stages[3:-1]) == {"settle"}


def test_time_scales_with_the_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is charged a real node's average time, and an agent its own."""
    now = iter(range(10_000))
    monkeypatch.setattr("dubhe_lab.bench.recycled.process_time", lambda: float(next(now)))
    server, nodes = nodes_and_server("dubhe-paper", 30, 5)
    costs = measured_rounds(server, nodes, 2)
    seconds = [[(of.stage, of.client_seconds) for of in cost.stages] for cost in costs]
    registration = [("join", 30.0), ("appoint", 1.0), ("register", 30.0), ("settle", 30.0)]
    determined = ("determine", 1.0)
    assert seconds == [[*registration, determined], [("participate", 30.0), determined]]
