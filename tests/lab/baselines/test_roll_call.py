"""Tests of the roll call of new nodes, of choices by alias, and of random selection."""

import json
from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import Federation, node_policies

from dubhe_flwr.core.distribution import label_distribution
from dubhe_flwr.errors import CheckpointError, QuorumError, SettingsError
from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_lab.baselines import (
    FedCbsSelector,
    FedEntOptSelector,
    FlipsSelector,
    GreedySelector,
    RandomSelector,
)

NUM_CLIENTS = 8
COUNTS = [[row + 1, 9 - row, (3 * row) % 7] for row in range(NUM_CLIENTS)]
SELECTORS: list[Any] = [
    lambda: RandomSelector(3, seed=7),
    lambda: GreedySelector(3, label_distribution(COUNTS), seed=7),
    lambda: FlipsSelector(3, COUNTS, seed=7),
    lambda: FedCbsSelector(3, COUNTS, seed=7),
    lambda: FedEntOptSelector(3, COUNTS, seed=7),
]


def federation(selector: Any, seed: int = 0) -> Federation[Any]:
    """Return a server and eight nodes."""
    return Federation(selector, node_policies(COUNTS), seed=seed)


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_run_repeats_by_alias_whatever_the_node_ids(selector: Any) -> None:
    """The chosen aliases repeat from run to run, although Flower's node ids are random."""
    runs = [
        [federation_.play(server_round).aliases for server_round in range(1, 8)]
        for federation_ in (federation(selector(), seed) for seed in (0, 1, 2))
    ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("selector", SELECTORS)
def test_k_connected_clients_are_chosen(selector: Any) -> None:
    """Disconnected nodes are not chosen, and participants are in alias order."""
    nodes = federation(selector())
    for server_round in range(1, 8):
        present = nodes.ids[server_round % 3 :: 2]
        plan = nodes.play(server_round, present)
        rows = [nodes.ids.index(node_id) for node_id in plan.participants]
        assert rows == sorted(set(rows))
        assert plan.aliases == tuple(map(str, rows))
        assert len(rows) == 3
        assert set(plan.participants) <= set(present)


@pytest.mark.parametrize("selector", SELECTORS)
def test_the_order_of_ids_and_arrival_changes_nothing(selector: Any) -> None:
    """Nodes and replies may come in any order, and a step can be repeated from a stored state."""
    one, other = federation(selector()), federation(selector())
    outcome = other.begin(1, other.ids[::-1])
    assert isinstance(outcome, Batch)
    stored, replies = other.state, other.deliver(outcome)
    plan = other.step(dict(reversed(replies.items())))
    assert plan == one.play(1) == other.selector.step(stored, replies)[1]


def test_each_node_is_asked_once() -> None:
    """Only newcomers are asked for their aliases; a round without newcomers sends nothing."""
    nodes = federation(RandomSelector(3, seed=7))
    plan = nodes.play(1, nodes.ids[:5])
    assert [e.node_id for e in nodes.exchanges] == sorted(nodes.ids[:5])
    assert {e.stage for e in nodes.exchanges} == {"hello"}
    assert [(r.sent, r.accepted) for r in plan.stages] == [(5, 5)]
    assert (plan.num_registered, plan.epoch) == (5, None)
    assert (plan.num_tries, plan.chosen) == (1, None)
    nodes.exchanges.clear()
    assert nodes.play(2, nodes.ids[:5]).stages == ()
    assert nodes.exchanges == []
    assert nodes.play(3).num_registered == 8
    assert [e.node_id for e in nodes.exchanges] == sorted(nodes.ids[5:])


def test_unwilling_nodes_are_left_alone() -> None:
    """A node that declines to take part is neither chosen nor asked again."""
    nodes = federation(RandomSelector(8, seed=7))
    nodes.policies[nodes.ids[2]] = replace(
        nodes.policies[nodes.ids[2]], willing=lambda _round: False
    )
    for server_round in (1, 2):
        assert nodes.play(server_round).participants == tuple(
            node_id for node_id in nodes.ids if node_id != nodes.ids[2]
        )
    assert [e.node_id for e in nodes.exchanges].count(nodes.ids[2]) == 1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda _r: None, "no reply"),
        (lambda _r: NodeFailure("?"), "error reply"),
        (lambda r: {**r, "alias": ""}, "MalformedMessageError"),
        (lambda r: {**r, "epoch": bytes(16)}, "StaleMessageError"),
    ],
)
def test_unfit_replies_are_dropped_and_asked_for_again(spoil: Any, reason: str) -> None:
    """Only nodes with valid replies can be chosen; the others are asked again next round."""
    nodes = federation(RandomSelector(8, seed=7))
    victim = nodes.ids[4]
    nodes.alter_reply = lambda _s, node_id, reply: spoil(reply) if node_id == victim else reply
    plan = nodes.play(1)
    assert plan.stages[0].dropped == {reason: 1}
    assert plan.participants == tuple(i for i in nodes.ids if i != victim)
    nodes.alter_reply = lambda _s, _n, reply: reply
    assert nodes.play(2).participants == tuple(nodes.ids)


def test_without_willing_nodes_the_round_fails() -> None:
    """Without a single willing node the round ends with a `QuorumError`."""
    nodes = federation(RandomSelector(3, seed=7))
    match = "Round 1: no willing node is connected; wait for more nodes"
    with pytest.raises(QuorumError, match=match):
        nodes.begin(1, [])
    nodes.alter_reply = lambda _s, _n, _r: None
    with pytest.raises(QuorumError, match=match):
        nodes.play(1)
    nodes.alter_reply = lambda _s, _n, reply: reply
    assert len(nodes.play(2).participants) == 3


def test_replies_without_a_batch_are_refused() -> None:
    """Without an open batch, replies are the adapter's error; a new round replaces the batch."""
    nodes = federation(RandomSelector(3, seed=7))
    with pytest.raises(SettingsError, match="call begin_round first"):
        nodes.step({})
    nodes.play(1, nodes.ids[:5])
    with pytest.raises(SettingsError, match="call begin_round first"):
        nodes.step({})
    assert isinstance(nodes.begin(2), Batch)
    assert not isinstance(nodes.begin(3, nodes.ids[:5]), Batch)
    with pytest.raises(SettingsError, match="call begin_round first"):
        nodes.step({})


@pytest.mark.parametrize("num_participants", [2.5, "20", None, 0, -1])
def test_an_invalid_number_of_participants_is_refused(num_participants: Any) -> None:
    """An invalid num_participants is refused when the selector is made."""
    with pytest.raises(SettingsError, match="must be a whole number of at least 1"):
        RandomSelector(num_participants)


def test_the_seed_is_given_or_drawn() -> None:
    """A given seed is kept; without one, each selector draws its own."""
    assert RandomSelector(3, seed=0).initial_state().seed == 0
    assert RandomSelector(3).num_participants == 3
    assert len({RandomSelector(3).initial_state().seed for _ in range(8)}) == 8
    selector = RandomSelector(3)
    assert selector.initial_state() == selector.initial_state()


def of_ten(num_participants: int = 4, seed: int = 7) -> Federation[Any]:
    """Return ten nodes and a server that selects at random."""
    return Federation(RandomSelector(num_participants, seed), node_policies([[1, 1]] * 10))


def test_rounds_and_seeds_differ() -> None:
    """Rounds of a run differ from each other, and so do runs with different seeds."""
    nodes = of_ten()
    rounds = {nodes.play(server_round).aliases for server_round in range(1, 20)}
    runs = {of_ten(seed=seed).play(1).aliases for seed in range(20)}
    assert len(rounds) > 15
    assert len(runs) > 15


def test_random_selection_resumes() -> None:
    """A saved state continues the run with other node ids and another seed; others are refused."""
    nodes, resumed = of_ten(), of_ten(seed=8)
    nodes.play(1)
    saved = json.loads(json.dumps(nodes.selector.state_dict(nodes.state)))
    resumed.state = resumed.selector.load_state_dict(saved)
    assert resumed.play(2).aliases == nodes.play(2).aliases
    for change in ({"seed": "7"}, {"extra": 1}):
        with pytest.raises(CheckpointError, match="selector"):
            resumed.selector.load_state_dict({**saved, **change})
