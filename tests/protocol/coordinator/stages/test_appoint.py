"""Tests of the stage `appoint`: who is asked to be an opener, and what if it cannot be."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any
from unittest.mock import Mock

import pytest
from adversary.test_committee import KEYS, TRUSTED, N, federation, joins_in
from protocol.nodes import set_policy
from protocol.server import alter, lost
from protocol.server import federation as with_agent

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.roster import Roster


def test_without_enough_candidates_there_is_no_committee() -> None:
    """The error says which nodes have to be connected."""
    nodes = federation()
    with pytest.raises(QuorumError, match=r"2 of the first 6 trusted keys .* always connected"):
        nodes.play(1, nodes.ids[4:])


@pytest.mark.slow
def test_two_silent_members_spoil_no_round() -> None:
    """Whichever of the fifteen pairs of candidates they are."""
    for pair in combinations(range(6), 2):
        nodes = federation()
        alter(nodes, Stage.APPOINT, lost, [nodes.ids[row] for row in pair])
        assert not nodes.play(1).fallback


@pytest.mark.parametrize("num_nodes", [4, 5, 6, pytest.param(20, marks=pytest.mark.slow)])
def test_one_silent_member_spoils_no_round(num_nodes: int) -> None:
    """Without keys, the server draws the committee, and another one at once if it fails."""
    for row in range(num_nodes):
        options: dict[str, Any] = {"number": num_nodes, "num_participants": 3}
        nodes = federation(pinned=False, determination=None, **options)
        alter(nodes, Stage.APPOINT, lost, [nodes.ids[row]])
        plan = nodes.play(1)
        assert (plan.num_registered, joins_in(plan) <= 3) == (num_nodes, True)


@pytest.mark.parametrize(
    ("place", "rows"),
    [(2, (0, 7)), (N - 1, range(1, N - 1, 2))],
    ids=["a removed key", "a new key"],
)
def test_lists_that_differ_by_a_key_leave_out_its_node_alone(
    place: int, rows: Sequence[int]
) -> None:
    """A removed key reaches the server first, and a new one last; nodes get lists one by one."""
    shorter = [key for key in TRUSTED if key != TRUSTED[place]]
    nodes = federation(trusted_keys=shorter)
    for row in rows:
        set_policy(nodes, nodes.ids[row], pinned=PinnedKeys(KEYS[row], shorter))
    plan = nodes.play(1)
    assert (plan.num_registered, joins_in(plan)) == (N - 1, 1)


def test_a_node_whose_key_is_not_trusted_does_not_train_at_random() -> None:
    """Its key may have been revoked."""
    nodes = federation(trusted_keys=TRUSTED[:-1], on_failure="random", num_participants=N)
    alter(nodes, Stage.APPOINT, lost)
    assert set(nodes.play(1).participants) == set(nodes.ids[:-1])


def test_no_committee_is_sought_for_ever() -> None:
    """After six epochs that failed, the server gives up the round."""
    nodes = federation(pinned=False)
    alter(nodes, Stage.APPOINT, lost)
    with pytest.raises(
        QuorumError, match=r"last attempt failed .* \(no reply at appoint: 3\); see"
    ):
        nodes.play(1)
    assert nodes.stages().count(Stage.JOIN) == 7


def test_the_mean_number_of_samples_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Server and agent compute it once; once per node, the time would grow quadratically."""
    computed = Mock(return_value=12.0)
    monkeypatch.setattr(Roster, "mean_examples", property(computed))
    with_agent(equal_weights=False).play(1)
    assert computed.call_count == 2
