"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

import pytest
from protocol.federation import Federation, priced
from protocol.server import (
    alter,
    failed,
    federation,
    stages_of,
)

from dubhe_flwr.protocol import NodeFailure
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY


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


def test_a_node_that_complains_about_the_agent_stays_alone() -> None:
    """A note names both, since either may be lying, and the others go on."""
    nodes = federation()
    alter(nodes, "register", lambda _reply: NodeFailure(UNUSABLE_KEY), nodes.ids[:1])
    plan = nodes.play(1)
    assert plan.num_registered == 11
    told = "According to node 0, node 4 sealed no usable key for them: either it or they are lying."
    assert plan.notes == (told,)
