"""Tests of the stage `join`: who is asked, who joins, and who stays out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from protocol.federation import dubhe, epoch_of
from protocol.nodes import Exchanges, set_policy
from protocol.server import Nodes, alter, asked, federation, lost, report_of, wills, without

from dubhe_flwr.errors import QuorumError


def test_a_round_costs_the_same_however_many_nodes_there_are() -> None:
    """With 600 or 60 connected nodes, each exchange has the same messages and bytes."""
    costs = []
    for num_nodes in (60, 600):
        nodes = federation(num_nodes, max_registered=60, registration_interval=2, tries=2)
        for row, node_id in enumerate(nodes.ids):
            set_policy(nodes, node_id, alias=f"{row:05}")
        costs.append([plan.stages for plan in nodes.rounds(1, 3)])
        assert (len(nodes.memories) > 60) == (num_nodes > 60)
    assert costs[0] == costs[1]


def test_a_connected_nodes_last_answer_counts() -> None:
    """Silence changes no answer; a node that leaves is forgotten, with its no and its alias.

    The report names nodes that stay out: by the alias they give, or the one they gave before.
    """
    nodes = federation(registration_interval=1)
    out = wills(nodes, [1, 2], lambda _round: False)
    nodes.play(1)
    alter(nodes, "join", lost, out)
    nodes.play(2)
    assert nodes.state.run.declined == out
    alter(nodes, "join", lost, nodes.ids[:1])
    wills(nodes, [1], lambda _round: True)
    set_policy(nodes, nodes.ids[3], alias="new")
    named = {nodes.ids[0]: "0", nodes.ids[2]: "2"}
    assert report_of(nodes.play(3), "join").aliases == named
    assert nodes.state.run.declined == {nodes.ids[2]}
    nodes.play(4, [*nodes.ids[:2], *nodes.ids[3:9]])
    assert nodes.state.run.declined == frozenset()
    aliases = {nodes.ids[row]: str(row) for row in (0, 1, *range(3, 9))}
    assert nodes.state.run.aliases == {**aliases, nodes.ids[3]: "new"}


def test_a_copied_public_key_is_dropped() -> None:
    """One node cannot keep the rest from registering."""
    nodes = federation()
    alter(nodes, "join", lambda reply: {**reply, "public-key": b"\x09" * 32}, nodes.ids[:3])
    assert report_of(nodes.play(1), "join").dropped == {"public key of another node": 2}


def test_a_node_cannot_take_another_nodes_alias() -> None:
    """It gets the alias with its id appended, whichever id is smaller; nobody is pushed out.

    Two nodes may swap aliases, and a node may take the alias of a silent one.
    """
    nodes = federation(registration_interval=1)
    nodes.play(1)
    for row, alias in ((0, "7"), (9, "7"), (2, "3"), (3, "2"), (4, "5")):
        set_policy(nodes, nodes.ids[row], alias=alias)
    alter(nodes, "join", lost, nodes.ids[5:6])
    assert report_of(nodes.play(2), "join").dropped == {"no reply": 1}
    found = [nodes.state.run.aliases[nodes.ids[row]] for row in (2, 3, 4, 7, 0, 9)]
    assert found == ["3", "2", "5", "7", *(f"7 (id {nodes.ids[row]})" for row in (0, 9))]


def test_a_node_without_a_number_of_samples_stays_out_of_a_weighted_epoch() -> None:
    """No agent could weight it."""
    nodes = federation(equal_weights=False)
    alter(nodes, "join", without("num-examples"), nodes.ids[:2])
    plan = nodes.play(1)
    assert report_of(plan, "join").dropped == {"unexpected or missing numbers": 2}
    assert plan.num_registered == 10


def coins(*lengths: int, **settings: Any) -> Nodes:
    """Return nodes with these numbers of classes."""
    counts = [np.arange(1, length + 1) for length in lengths]
    return dubhe(counts, num_participants=4, rule=Exchanges(), **settings)


def test_nodes_with_another_number_of_classes_stay_out() -> None:
    """The log names their alias and number; they declined, and cause no early registration."""
    nodes = coins(5, 5, 3, 5, 5, 7, 5, 5)
    plan = nodes.play(1)
    odd = {nodes.ids[2], nodes.ids[5]}
    (note,) = plan.notes
    assert note.startswith("Most nodes have 5 classes; these sit out: node 2 has 3, node 5 ")
    assert note.endswith("np.bincount needs minlength=num_classes for them.")
    assert (plan.num_registered, epoch_of(nodes).registration.joined.num_classes) == (6, 5)
    assert epoch_of(nodes).registration.joined.declined == odd == nodes.state.run.declined
    assert nodes.play(2).epoch == plan.epoch
    assert not odd & set(asked(nodes, "register"))


def test_the_error_says_why_most_nodes_stay_out() -> None:
    """The error repeats the round's notes, which nobody would see after the run ends."""
    with pytest.raises(QuorumError, match=r"period, fewer .* have 5 classes; .*: node 1 has 3"):
        coins(5, 3, 5, 4).play(1)


@pytest.mark.parametrize("lengths", [range(1, 10), (5, 5, 5, 4, 4, 3, 3)])
def test_a_run_ends_if_most_nodes_disagree(lengths: Sequence[int]) -> None:
    """If each node returns its labels, or leaves out classes, most of them differ."""
    with pytest.raises(
        QuorumError,
        match=r"Nodes disagree on .*: .*\d classes at (1 node|2 nodes).* must "
        r"return one count for each class, .* not the labels",
    ):
        coins(*lengths).play(1)
    nodes = coins(*lengths, on_failure="random")
    out = wills(nodes, [0, 1, 2], lambda _round: False)
    plan = nodes.play(1)
    assert plan.fallback
    assert not out & set(plan.participants)
    assert set(plan.aliases) < set(map(str, range(len(lengths))))


def test_the_largest_number_of_classes_wins_a_tie() -> None:
    """In a tie, the largest number wins, in any order: some nodes may lack the last classes."""
    for lengths in ((6, 6, 6, 4, 4, 4), (4, 4, 4, 6, 6, 6)):
        nodes = coins(*lengths)
        assert nodes.play(1).num_registered == 3
        assert epoch_of(nodes).registration.joined.num_classes == 6
