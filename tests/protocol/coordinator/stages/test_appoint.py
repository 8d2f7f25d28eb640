"""Tests of the stage `appoint`: who is asked to be the committee, and what if it cannot be."""

from collections.abc import Sequence

import pytest
from adversary.test_committee import KEYS, TRUSTED, federation, joins_in, objecting
from protocol.nodes import set_policy
from protocol.server import alter, lost

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Stage


def test_a_sample_with_too_few_candidates_is_extended() -> None:
    """All connected nodes are asked once; those that may register include the candidates."""
    nodes = federation(max_registered=12, seed=9)
    plan = nodes.play(1)
    joins = [report.sent for report in plan.stages if report.stage == Stage.JOIN]
    assert joins == [12, 20]
    assert (plan.num_registered, plan.fallback) == (12, False)


def test_without_enough_candidates_there_is_no_committee() -> None:
    """The error says which nodes have to be connected."""
    nodes = federation()
    with pytest.raises(QuorumError, match=r"2 of the first 6 trusted keys .* always connected"):
        nodes.play(1, nodes.ids[4:])


def test_objections_without_a_correction_cost_an_epoch() -> None:
    """Two members that object to correct ranks are not in the next committee."""
    nodes = federation()
    alter(nodes, Stage.APPOINT, objecting(range(20)), nodes.ids[:2])
    plan = nodes.play(1)
    assert [report.stage for report in plan.stages].count(Stage.JOIN) == 2
    assert (plan.num_registered, plan.fallback) == (20, False)


@pytest.mark.parametrize("old", [(0, 1), (0, 2, 4), (0, 1, 3), (0, 1, 2, 3, 4)])
def test_a_new_file_of_trusted_keys_may_reach_nodes_one_by_one(old: Sequence[int]) -> None:
    """Nodes with the old file object to a new node; a member that accepted it is asked again."""
    nodes = federation()
    for row in old:
        set_policy(nodes, nodes.ids[row], pinned=PinnedKeys(KEYS[row], TRUSTED[:-1]))
    for server_round in (1, 2):
        plan = nodes.play(server_round)
        assert "does not trust these nodes, which stay out: 19." in plan.notes[0]
        assert (plan.num_registered, joins_in(plan)) == (19, 1)


def test_no_committee_is_sought_for_ever() -> None:
    """After six epochs that failed, the server gives up the round."""
    nodes = federation(pinned=False)
    alter(nodes, Stage.APPOINT, lost)
    with pytest.raises(QuorumError, match="No committee opens the sums; the last one failed"):
        nodes.play(1)
    assert nodes.stages().count(Stage.JOIN) == 7
