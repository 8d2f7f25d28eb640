"""Tests of the stage `determine`: agents choose the best try."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol.federation import skewed_counts
from protocol.server import Nodes, awaiting, federation

from dubhe_flwr.core.determination import scores_of
from dubhe_flwr.core.distribution import fixed_point_distribution as fixed_point
from dubhe_flwr.core.distribution import with_square
from dubhe_flwr.protocol import Batch, Plan
from dubhe_flwr.protocol.coordinator.epoch import DeterminedRound
from dubhe_flwr.protocol.coordinator.stages.determine import Determine
from dubhe_flwr.protocol.coordinator.stages.participate import Participate

N = 24
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
    (tasks,) = (list(asked.values()) for asked in awaiting(nodes, Determine).tasks.values())
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
