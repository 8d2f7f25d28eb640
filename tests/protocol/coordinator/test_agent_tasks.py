"""Tests of an agent's task in a round: its tries, and an agent outside of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol.federation import epoch_of
from protocol.server import federation

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.agent_tasks import AgentTask, agent_task_of, has_choice
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.rounds import DrawnRound

N = 9
ORDER = generator(7, "agents", 3).permutation(N)


@pytest.fixture(scope="module")
def epoch() -> Epoch:
    """Return an epoch of nine clients that began in round 3."""
    nodes = federation(N, num_participants=3, tries=1)
    nodes.play(3)
    return epoch_of(nodes)


@given(data=st.data())
def test_the_next_agent_with_sums_left_is_in_none_of_its_own(
    epoch: Epoch, data: st.DataObject
) -> None:
    """Whoever is away or has spent its sums: the agent is in no try, nor over budget."""
    num_tries = data.draw(st.integers(1, 5))
    num_participants = data.draw(st.integers(3, 9))
    free = np.array(data.draw(st.lists(st.booleans(), min_size=N, max_size=N)))
    spent = data.draw(st.lists(st.integers(0, 5), min_size=N, max_size=N))
    server_round = data.draw(st.integers(3, 40))
    num_sums = dict(zip(epoch.registered, spent, strict=True))
    announced = replace(epoch.announced, num_participants=num_participants)
    invitation = replace(epoch.invitation, announced=announced)
    changed = replace(epoch, invitation=invitation, num_sums=num_sums)
    decisions = generator(server_round, "draw").random((N, num_tries)) < 0.4
    drawn = DrawnRound(decisions, free, ())
    task = agent_task_of(changed, drawn, 7, server_round)
    able = [
        row for row in np.roll(ORDER, 3 - server_round) if free[row] and spent[row] + num_tries <= 4
    ]
    agent = able[0] if able and has_choice(changed, drawn) else None
    if agent is None:
        assert not isinstance(task, AgentTask)
    else:
        assert isinstance(task, AgentTask)
        assert task.agent == epoch.registered[agent]
    for members in task.tries:
        assert len(members) == min(num_participants, free.sum())
        assert free[members].all()
        assert agent not in members
