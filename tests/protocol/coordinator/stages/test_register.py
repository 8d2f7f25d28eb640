"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

import pytest
from protocol.federation import Federation, priced
from protocol.server import (
    PLAIN,
    alter,
    everywhere,
    failed,
    federation,
    report_of,
    stages_of,
    with_liars,
)

from dubhe_flwr.protocol import NodeFailure
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY


@pytest.mark.parametrize("byte", [b"\xff", b"\x7f"], ids=["negative", "too large"])
def test_numbers_that_cannot_be_in_the_clear_stay_out_of_the_sum(byte: bytes) -> None:
    """They are dropped as invalid ciphertexts are, and nobody refuses the sum of the rest."""
    nodes = federation(**PLAIN)
    spoil = lambda reply: {**reply, "registration": byte * len(reply["registration"])}  # noqa: E731
    alter(nodes, "register", spoil, nodes.ids[:2])
    plan = nodes.play(1)
    assert report_of(plan, "register").dropped == {"invalid ciphertext": 2}
    assert (plan.num_registered, nodes.errors) == (10, [])


@pytest.mark.parametrize("has_committee", [True, False])
def test_nodes_that_can_use_nobodys_keys_cost_one_more_registration(has_committee: bool) -> None:
    """A quarter of the nodes refuse to register: another epoch is tried, and goes on without."""
    nodes: Federation[CoordinatorState] = federation()
    if has_committee:
        nodes = priced(12, num_participants=4, tries=None, simulation="encrypted")
    alter(nodes, "register", failed, nodes.ids[:4])
    plan = nodes.play(1)
    assert stages_of(plan).count("register") == 2
    assert (plan.num_registered, len(plan.participants)) == (8, 4)
    assert plan.notes[0].startswith("No sum can be opened because of node")
    nodes.play(2)


def test_a_liar_among_nodes_that_can_use_nobodys_keys_ends_no_run() -> None:
    """Their failures leave enough epochs to find the liar."""
    nodes = federation(16)
    with_liars(nodes, nodes.ids[-1:], "registration", everywhere)
    lie = nodes.alter_reply
    nodes.alter_reply = lambda stage, node_id, reply: (
        failed(reply)
        if stage == "register" and node_id in nodes.ids[:4]
        else lie(stage, node_id, reply)
    )
    for plan in nodes.rounds(1, 3):
        assert (len(plan.participants), plan.fallback) == (4, False)


def test_a_node_that_complains_about_the_agent_stays_alone() -> None:
    """A note names both, since either may be lying, and the others go on."""
    nodes = federation()
    alter(nodes, "register", lambda _reply: NodeFailure(UNUSABLE_KEY), nodes.ids[:1])
    plan = nodes.play(1)
    assert plan.num_registered == 11
    told = "According to node 0, node 4 sealed no usable key for them: either it or they are lying."
    assert plan.notes == (told,)
