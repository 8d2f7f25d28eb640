"""Tests of determination: an agent a round, another if it fails, none without a choice."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol.dishonest import KINDS, make_dishonest
from protocol.federation import decrypted, epoch_of, session_state
from protocol.server import FAULTS, FIXED, agents_in_turn, asked, federation, report_of

from dubhe_flwr.core import best_try
from dubhe_flwr.protocol import Batch, Plan, Stage


def test_no_agent_sees_its_own_data() -> None:
    """Every sum that was asked for is that of the tries, without the agent."""
    nodes = federation(registration_interval=12)
    agents = []
    for server_round in range(1, 13):
        nodes.exchanges.clear()
        plan = nodes.play(server_round)
        (exchange,) = [e for e in nodes.exchanges if e.stage == "determine"]
        agents.append(exchange.node_id)
        agent = nodes.ids.index(exchange.node_id)
        tries = nodes.state.rounds[server_round].selections
        assert all(agent not in members for members in tries)
        state = session_state(nodes, exchange.node_id)
        sums = exchange.request["sums"]
        assert isinstance(sums, bytes)
        totals = [decrypted(state, "distribution", sums[i : i + 128]) for i in (0, 128, 256)]
        np.testing.assert_array_equal(totals, [FIXED[members].sum(axis=0) for members in tries])
        assert str(agent) not in plan.aliases
        assert plan.num_selections == 3
        assert state.num_sums == 3
    assert agents == agents_in_turn(nodes)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        *FAULTS,
        (lambda r: {**r, "chosen": b""}, "no such try or groups"),
        (lambda r: {**r, "chosen": r["chosen"] * 2}, "no such try or groups"),
        (lambda r: {**r, "chosen": (3).to_bytes(8, "big")}, "no such try or groups"),
        (lambda r: {**r, "chosen": b"\xff" * 8}, "no such try or groups"),
        (lambda r: {**r, "chosen": b"\x7f" * 8}, "no such try or groups"),
        (lambda r: {**r, "chosen": bytes(7)}, "MalformedMessageError"),
    ],
)
def test_an_agent_that_fails_is_replaced(spoil: Any, reason: str) -> None:
    """The next one in turn determines tries that lack its data, not the first one's."""
    nodes = federation()
    first, second, *_ = agents_in_turn(nodes)
    nodes.alter_reply = lambda stage, node_id, reply: (
        spoil(reply) if (stage, node_id) == ("determine", first) else reply
    )
    plan = nodes.play(1)
    assert asked(nodes, "determine") == [first, second]
    assert report_of(plan, "determine").dropped == {reason: 1}
    assert report_of(plan, "determine", 1).accepted == 1
    assert plan.notes == ("An agent did not determine.",)
    agent = nodes.ids.index(second)
    tries = nodes.state.rounds[1].selections
    assert all(agent not in members for members in tries)
    exchange = nodes.exchanges[-1]
    sums: Any = exchange.request["sums"]
    state = session_state(nodes, second)
    totals = [decrypted(state, "distribution", sums[i : i + 128]) for i in (0, 128, 256)]
    np.testing.assert_array_equal(totals, [FIXED[members].sum(axis=0) for members in tries])
    assert plan.participants == tuple(nodes.ids[row] for row in tries[plan.chosen[0]])


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_at_last_the_first_try_is_taken(attempts: int) -> None:
    """The round goes on undetermined, and the plan says so."""
    nodes = federation(agent_attempts=attempts)
    nodes.alter_reply = lambda stage, _n, reply: None if stage == "determine" else reply
    plan = nodes.play(1)
    assert asked(nodes, "determine") == agents_in_turn(nodes)[:attempts]
    tries = nodes.state.rounds[1].selections
    assert plan.participants == tuple(nodes.ids[row] for row in tries[0])
    assert plan.chosen == (0,)
    assert plan.notes == (
        *["An agent did not determine."] * (attempts - 1),
        "No agent determined; the choice is random.",
    )


def test_when_no_agent_is_left_the_first_try_is_taken() -> None:
    """Seven nodes cannot be asked eight times."""
    nodes = federation(7, agent_attempts=50)
    nodes.alter_reply = lambda stage, _n, reply: None if stage == "determine" else reply
    plan = nodes.play(1)
    assert asked(nodes, "determine") == agents_in_turn(nodes)
    assert plan.chosen == (0,)
    assert plan.notes == (
        *["An agent did not determine."] * 7,
        "No agent is left to determine; the choice is random.",
    )
    assert len(plan.participants) == 4


def test_an_agent_that_failed_is_asked_in_a_later_round() -> None:
    """A failure counts in its round only, but its sums are spent."""
    nodes = federation()
    first, second, third, *_ = agents_in_turn(nodes)
    nodes.alter_reply = lambda stage, node_id, reply: (
        None if (stage, node_id) == ("determine", first) else reply
    )
    nodes.play(1)
    assert epoch_of(nodes).num_sums == {first: 3, second: 3}
    nodes.alter_reply = lambda _s, _n, reply: reply
    nodes.play(2)
    assert asked(nodes, "determine") == [first, second, third]


@pytest.mark.parametrize(
    ("num_clients", "num_participants", "tries", "determined"),
    [
        (12, 4, 1, False),
        (12, 4, 2, True),
        (3, 3, 3, False),
        (4, 3, 3, False),
        (5, 3, 3, True),
        (4, 4, 3, False),
        (5, 4, 3, False),
        (6, 4, 3, True),
        (12, 12, 3, False),
        (12, 11, 3, False),
        (12, 10, 3, True),
    ],
)
def test_small_federations(
    num_clients: int, num_participants: int, tries: int, determined: bool
) -> None:
    """Where there is one try or one possible set, nobody is asked; exactly K train."""
    nodes = federation(num_clients, num_participants=num_participants, tries=tries)
    for server_round in range(1, 6):
        plan = nodes.play(server_round)
        assert len(plan.participants) == num_participants
        assert plan.notes == ()
    assert bool(asked(nodes, "determine")) == determined


@pytest.mark.parametrize("kind", [k for k, (field, _) in KINDS.items() if field == "distribution"])
def test_a_wrong_distribution_costs_its_own_tries(kind: str) -> None:
    """Agents choose among the tries without that client; only where it is in all, none does."""
    nodes = federation(tries=5, registration_interval=12)
    liar = nodes.ids[5]
    make_dishonest(nodes, {liar: kind})
    hit = 0
    for server_round in range(1, 13):
        plan = nodes.play(server_round)
        tries = nodes.state.rounds[server_round].selections
        spoilt = [5 in members for members in tries]
        hit += any(spoilt)
        assert (plan.notes == ()) == (not all(spoilt))
        if not all(spoilt):
            assert liar not in plan.participants
            clean = [index for index, bad in enumerate(spoilt) if not bad]
            best = best_try([FIXED[tries[index], :-1].sum(axis=0) for index in clean])
            assert plan.chosen == (clean[best],)
    assert hit > 6


def test_each_round_has_its_agent() -> None:
    """All agents are asked in one batch, about one round each."""
    nodes = federation(rounds_per_draw=4)
    nodes.play(1)
    assert sorted(asked(nodes, "determine")) == sorted(agents_in_turn(nodes)[:4])
    requests = [e.request for e in nodes.exchanges if e.stage == "determine"]
    three = np.array([3], dtype=">i8").tobytes()
    fours = np.full(3, 4, dtype=">i8").tobytes()
    assert {(r["num-sums"], r["num-clients"]) for r in requests} == {(three, fours)}


def test_one_of_several_agents_fails() -> None:
    """Only its round is determined again."""
    nodes, same = federation(rounds_per_draw=4), federation(rounds_per_draw=4)
    lost_agent = agents_in_turn(nodes)[2]
    nodes.alter_reply = lambda stage, node_id, reply: (
        None if (stage, node_id) == ("determine", lost_agent) else reply
    )
    plans = [nodes.play(server_round) for server_round in range(1, 5)]
    others = [same.play(server_round) for server_round in range(1, 5)]
    assert asked(nodes, "determine")[4:] == [agents_in_turn(nodes)[4]]
    for mine, theirs in zip(plans, others, strict=True):
        if mine.server_round != 3:
            assert mine.aliases == theirs.aliases


def test_few_agents_determine_several_rounds_each() -> None:
    """An agent that stands in for the unwilling gets its rounds in one request."""
    nodes = federation(rounds_per_draw=3, tries=2, num_participants=3)
    stand_in = nodes.ids[4]
    spent = {node_id: 4 for node_id in nodes.ids if node_id != stand_in}
    batch = nodes.until(Stage.PARTICIPATE)
    epoch = replace(epoch_of(nodes), num_sums=spent)
    nodes.state = replace(nodes.state, epoch=epoch)
    outcome = nodes.step(nodes.deliver(batch))
    assert isinstance(outcome, Batch)
    assert list(outcome.requests) == [stand_in]
    plan = nodes.step(nodes.deliver(outcome))
    assert isinstance(plan, Plan)
    chosen = [nodes.state.rounds[r].chosen for r in (1, 2, 3)]
    sums = [
        [FIXED[members, :-1].sum(axis=0) for members in nodes.state.rounds[r].selections]
        for r in (1, 2)
    ]
    assert chosen == [(best_try(sums[0]),), (best_try(sums[1]),), (0,)]
    assert nodes.state.rounds[3].agent is None
    assert plan.notes == ("No agent is left to determine; the choice is random.",)
