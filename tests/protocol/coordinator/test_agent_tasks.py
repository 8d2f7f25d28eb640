"""Tests of an agent's task in a round: an agent outside its own tries; tries; groups."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import epoch_of
from protocol.server import federation

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.agent_tasks import (
    AgentTask,
    CutRound,
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


def agent_of(question: CutRound) -> int | None:
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
    """One try, one possible set, a set of nearly all, or more sums than any agent decrypts."""
    changed, drawn = selecting(epoch, num_participants), draw(num_tries, 0, without(*away))
    question = agent_task_of(changed, drawn, NOBODY, 7, 3)
    assert isinstance(question, AgentTask) == asked
    assert has_choice(changed, drawn) == (asked or num_tries == 5)
    fewest = min(num_participants, N - len(away))
    assert {len(members) for members in question.selections} == {fewest}


@settings(max_examples=200)
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
    for members in question.selections:
        assert len(members) == min(num_participants, free.sum())
        assert free[members].all()
        assert agent_of(question) not in epoch.ids(members)
    if isinstance(question, AgentTask):
        assert question.agent not in failed
        place = epoch.registered.index(question.agent)
        assert free[place]
        assert spent[place] + num_tries <= 4


@pytest.fixture(scope="module")
def large(epoch: Epoch) -> Epoch:
    """Return an epoch of thirty clients, of which eight are wanted in two groups."""
    aliases = {1000 + row: str(row) for row in range(30)}
    announced = replace(epoch.announced, num_participants=8, group_size=3, pool=5)
    invitation = replace(epoch.invitation, announced=announced)
    return replace(epoch, aliases=aliases, num_registered=30, invitation=invitation)


@given(
    rate=st.floats(0, 1),
    away=st.sets(st.integers(0, 29)),
    failed=st.frozensets(st.integers(0, 29)),
    spent=st.integers(0, 14),
    seed=st.integers(0, 2**32),
)
def test_groups_are_disjoint_and_lack_their_agent(  # noqa: PLR0917 - all that matters
    large: Epoch, rate: float, away: set[int], failed: frozenset[int], spent: int, seed: int
) -> None:
    """The first groups always make up K, and so does any answer, whoever draws, leaves or fails."""
    decisions = generator(seed, "draw").random((30, 1)) < rate
    available = np.array([row not in away for row in range(30)])
    drawn = DrawnRound(decisions, available, ())
    question = agent_task_of(spending(large, *[spent] * 30), drawn, large.ids(failed), seed, 3)
    members = np.concatenate(question.selections)
    assert len(set(members.tolist())) == members.size
    assert available[members].all()
    if not isinstance(question, AgentTask):
        assert (question.first, len(question.selections)) == ((0,), 1)
        assert members.size == min(8, 30 - len(away))
        none_left = not any(available[row] for row in set(range(30)) - failed)
        assert none_left or spent + 6 > 14 or available.sum() <= 9
        return
    agent = large.registered.index(question.agent)
    assert available[agent]
    assert agent not in {*failed, *members.tolist()}
    assert question.first == (0, 1)
    assert {len(group) for group in question.selections} == {4}
    assert 2 <= len(question.selections) <= large.sums_per_round(1) == 6


@pytest.mark.parametrize(
    ("chosen", "fits"),
    [
        *(((0, 2), True), ((2, 0), True), ((1, 2), True), ((3, 1), True)),
        *(((0, 1), False), ((2, 3), False), ((0, 0), False), ((2, 2), False)),
        *(((0, 4), False), ((0, -1), False), ((0,), False), ((0, 1, 2), False), ((), False)),
    ],
)
def test_an_answer_names_distinct_groups_of_the_right_sizes(
    chosen: tuple[int, ...], fits: bool
) -> None:
    """An answer names distinct, existing groups with the same number of clients as the first."""
    groups = tuple(np.split(np.arange(14), [3, 6, 10]))
    question = AgentTask(draw(1), groups, first=(0, 2), agent=5)
    assert question.is_answer(chosen) == fits
    if fits:
        members = sorted(row for index in chosen for row in groups[index].tolist())
        assert question.ready(chosen).members == tuple(members)
