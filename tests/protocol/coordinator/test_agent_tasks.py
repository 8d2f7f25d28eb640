"""Tests of an agent's task in a round: its tries, and an agent outside of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import epoch_of
from protocol.server import federation

from dubhe_flwr.core.determination import far_apart, fill_or_trim
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.agent_tasks import (
    AgentTask,
    TriedRound,
    agent_task_of,
    has_choice,
)
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.rounds import DrawnRound

N = 9
ALL = np.ones(N, dtype=bool)
NOBODY: frozenset[int] = frozenset()
ORDER = generator(7, "agents", 3).permutation(N).tolist()


@pytest.fixture(scope="module")
def epoch() -> Epoch:
    """Return an epoch of nine clients that began in round 3."""
    nodes = federation(N, num_participants=3, tries=1)
    nodes.play(3)
    return epoch_of(nodes)


def draw(num_tries: int, seed: int = 0, available: NDArray[np.bool_] = ALL) -> DrawnRound:
    """Return a round of random draws."""
    decisions = generator(seed, "draw").random((len(available), num_tries)) < 0.4
    return DrawnRound(decisions, available, ())


def selecting(epoch: Epoch, num_participants: int) -> Epoch:
    """Return an epoch with this K."""
    announced = replace(epoch.announced, num_participants=num_participants)
    return replace(epoch, invitation=replace(epoch.invitation, announced=announced))


def spending(epoch: Epoch, *sums: int) -> Epoch:
    """Return the epoch after its agents, by index, have received these numbers of sums."""
    return replace(epoch, num_draws=0, num_sums=dict(zip(epoch.registered, sums, strict=True)))


def agent_of(question: TriedRound) -> int | None:
    """Return the agent that is asked, or None if none is."""
    return question.agent if isinstance(question, AgentTask) else None


def without(*indices: int) -> NDArray[np.bool_]:
    """Return all nodes except these."""
    available = ALL.copy()
    available[list(indices)] = False
    return available


def test_unavailable_agents_are_skipped(epoch: Epoch) -> None:
    """The next one in order takes over; an agent with just enough sums left is not skipped."""
    spent = [0] * N
    spent[ORDER[2]] = 1
    drawn = draw(4, available=without(ORDER[0]))
    failed = epoch.ids([ORDER[1]])
    agent = agent_of(agent_task_of(spending(epoch, *spent), drawn, failed, 7, 3))
    assert agent == epoch.registered[ORDER[3]]
    drawn = draw(3, available=without(ORDER[0]))
    agent = agent_of(agent_task_of(spending(epoch, *spent), drawn, failed, 7, 3))
    assert agent == epoch.registered[ORDER[2]]


@pytest.mark.parametrize(
    ("away", "num_participants", "num_tries", "asked"),
    [
        ((), 6, 4, True), ((), 7, 4, False), ((), 9, 4, False), ((1, 2), 5, 4, True),
        ((1, 2), 6, 4, False), ((1, 2), 8, 4, False), ((), 3, 1, False), ((), 3, 2, True),
        ((), 3, 5, False),
    ],
)  # fmt: skip
def test_no_agent_is_asked_without_a_choice(
    epoch: Epoch, away: tuple[int, ...], num_participants: int, num_tries: int, asked: bool
) -> None:
    """No choice: one try, one possible set, nearly all clients, or too many sums for any agent."""
    changed, drawn = selecting(epoch, num_participants), draw(num_tries, 0, without(*away))
    question = agent_task_of(changed, drawn, NOBODY, 7, 3)
    assert isinstance(question, AgentTask) == asked
    assert has_choice(changed, drawn) == (asked or num_tries == 5)
    fewest = min(num_participants, N - len(away))
    assert {len(members) for members in question.tries} == {fewest}


@given(data=st.data())
def test_no_agent_is_in_its_own_sums(epoch: Epoch, data: st.DataObject) -> None:
    """Whichever nodes are available, failed or spent: no agent is in its tries or over budget."""
    num_tries = data.draw(st.integers(1, 5))
    num_participants = data.draw(st.integers(3, 9))
    flags = st.lists(st.booleans(), min_size=N, max_size=N)
    free = np.array(data.draw(flags))
    spent = data.draw(st.lists(st.integers(0, 5), min_size=N, max_size=N))
    failed = epoch.ids(np.flatnonzero(data.draw(flags)))
    server_round = data.draw(st.integers(3, 40))
    question = agent_task_of(
        spending(selecting(epoch, num_participants), *spent),
        draw(num_tries, server_round, free),
        failed,
        7,
        server_round,
    )
    for members in question.tries:
        assert len(members) == min(num_participants, free.sum())
        assert free[members].all()
        assert agent_of(question) not in epoch.ids(members)
    if isinstance(question, AgentTask):
        assert question.agent not in failed
        place = epoch.registered.index(question.agent)
        assert free[place]
        assert spent[place] + num_tries <= 4


def test_each_try_stands_alone(epoch: Epoch) -> None:
    """A try depends on its own decisions, seed, round and index, not on other tries or rounds."""

    def tries_of(decisions: NDArray[np.bool_]) -> list[list[int]]:
        drawn = DrawnRound(decisions, ALL, ())
        made = agent_task_of(epoch, drawn, frozenset(epoch.registered), 7, 3)
        return [clients.tolist() for clients in made.tries]

    decisions = draw(6).decisions
    assert decisions.sum(axis=0).min() < 3 < decisions.sum(axis=0).max()
    tries = tries_of(decisions)
    alone = [
        fill_or_trim(volunteers, ALL, 3, generator(7, "fill-or-trim", 3, index))
        for index, volunteers in enumerate(decisions.T)
    ]
    assert tries == [clients.tolist() for clients in far_apart(alone, epoch.announced.min_cohort)]
    others = decisions.copy()
    others[:, 1:] = ~others[:, 1:]
    assert tries_of(others)[0] == tries[0]
    assert tries_of(decisions[:, :4]) == tries[:4]
