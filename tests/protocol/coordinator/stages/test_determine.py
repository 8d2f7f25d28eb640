"""Tests of the stage `determine`: agents choose the best try."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol.federation import epoch_of, skewed_counts
from protocol.server import Nodes, awaiting, federation, stages_of, tasks_of, wills

from dubhe_flwr.core.determination import scores_of
from dubhe_flwr.core.distribution import fixed_point_distribution as fixed_point
from dubhe_flwr.core.distribution import with_square
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol import Batch, Plan
from dubhe_flwr.protocol.coordinator.epoch import DeterminedRound, DrawnRound, Epoch
from dubhe_flwr.protocol.coordinator.stages.determine import agent_of, with_tries
from dubhe_flwr.protocol.coordinator.stages.participate import Participate

N, FEW = 24, 9
ORDER = generator(7, "agents", 3).permutation(FEW)
FIXED = np.array([with_square(fixed_point(row)) for row in skewed_counts(N)])


def best(task: DeterminedRound) -> int:
    """Return the best try, from plain numbers."""
    return int(np.argmin(scores_of([FIXED[list(members)].sum(axis=0) for members in task.tries])))


def standing_in(nodes: Nodes, stand_in: int, server_round: int) -> Batch:
    """Play to a round in which all agents but one have spent their sums, and that one is asked."""
    nodes.rounds(1, server_round - 1)
    batch = nodes.until("participate", server_round)
    num_sums = {node_id: 11 for node_id in nodes.ids if node_id != stand_in}
    stage = awaiting(nodes, Participate)
    changed = replace(stage, epoch=replace(stage.epoch, num_sums=num_sums))
    nodes.state = replace(nodes.state, stage=changed)
    outcome = nodes.step(nodes.deliver(batch))
    assert isinstance(outcome, Batch)
    assert list(outcome.requests) == [stand_in]
    return outcome


def test_one_request_has_all_rounds_of_an_agent() -> None:
    """An agent that replaces spent ones gets their rounds in one request, while its sums last."""
    nodes = federation(N, rounds_per_draw=6, registration_interval=12)
    batch = standing_in(nodes, nodes.ids[4], 7)
    tasks = [task for _, task in tasks_of(nodes).values()]
    num_sums = sum(len(task.tries) for task in tasks)
    assert num_sums + len(tasks[0].tries) > 11 >= num_sums
    plans = [nodes.finish(batch), *nodes.rounds(8, 12)]
    assert [plan.chosen for plan in plans[: len(tasks)]] == list(map(best, tasks))
    assert {plan.chosen for plan in plans[len(tasks) :]} == {0}
    assert plans[0].notes == ("No agent is left to choose a try; the first one is used.",)


@pytest.mark.parametrize("chosen", [(1, 3), (3, 1), (1,)])
def test_one_wrong_round_voids_the_answer(chosen: tuple[int, ...]) -> None:
    """One wrong round out of two is enough to reject the answer."""
    nodes = federation(N, rounds_per_draw=2)
    batch = standing_in(nodes, nodes.ids[4], 3)
    replies: Any = nodes.deliver(batch)
    replies[nodes.ids[4]] |= {"chosen": np.array(chosen, dtype=">i8").tobytes()}
    plan = nodes.step(replies)
    assert isinstance(plan, Plan)
    assert plan.notes == ("An agent did not choose a try; the first one is used.",)
    assert [plan.chosen, nodes.play(4).chosen] == [0, 0]


@pytest.mark.parametrize("num_others", [5, 6])
def test_an_agent_is_asked_only_if_it_has_a_choice(num_others: int) -> None:
    """Without the agent, K other clients make every try the same."""
    nodes = federation(FEW, num_participants=5)
    wills(nodes, range(FEW - num_others - 1), lambda server_round: server_round == 0)
    assert ("determine" in stages_of(nodes.play(1))) == (num_others == 6)


@pytest.fixture(scope="module")
def epoch() -> Epoch:
    """Return an epoch of nine clients that began in round 3."""
    nodes = federation(FEW, num_participants=3, tries=1)
    nodes.play(3)
    return epoch_of(nodes)


@given(data=st.data())
def test_the_next_agent_with_sums_left_is_in_none_of_its_own(
    epoch: Epoch, data: st.DataObject
) -> None:
    """Whoever is away or has spent its sums: the agent is in no try, nor over budget."""
    num_tries = data.draw(st.integers(1, 5))
    num_participants = data.draw(st.integers(3, 9))
    free = np.array(data.draw(st.lists(st.booleans(), min_size=FEW, max_size=FEW)))
    spent = data.draw(st.lists(st.integers(0, 5), min_size=FEW, max_size=FEW))
    server_round = data.draw(st.integers(3, 40))
    num_sums = dict(zip(epoch.registered, spent, strict=True))
    announced = replace(epoch.announced, num_participants=num_participants)
    joined = replace(epoch.registration.joined, announced=announced)
    registration = replace(epoch.registration, joined=joined)
    changed = replace(epoch, registration=registration, num_sums=num_sums)
    decisions = generator(server_round, "draw").random((FEW, num_tries)) < 0.4
    drawn = DrawnRound(decisions, free, ())
    able = [
        row for row in np.roll(ORDER, 3 - server_round) if free[row] and spent[row] + num_tries <= 4
    ]
    agent = agent_of(changed, drawn, 7, server_round)
    assert agent == (able[0] if able else None)
    for members in with_tries(changed, drawn, agent, 7, server_round).tries:
        assert len(members) == min(num_participants, free.sum() - (agent is not None))
        assert free[list(members)].all()
        assert agent not in members
