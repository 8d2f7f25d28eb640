"""Tests of what openers sign; `adversary` has whole attacks."""

from typing import Any

import pytest
from adversary.test_committee import federation as with_committee
from adversary.test_committee import flipped
from protocol.nodes import pinned_federation
from protocol.server import alter, report_of

from dubhe_flwr.protocol import Stage


@pytest.mark.parametrize("with_nodes", [with_committee, pinned_federation])
def test_an_opener_that_signs_wrongly_for_one_node_is_replaced(with_nodes: Any) -> None:
    """The server notices, so nobody sits out, and no node has to be told of the signature."""
    nodes = with_nodes()
    opener = list(nodes.until(Stage.APPOINT).requests)[-1]
    nodes = with_nodes()
    alter(nodes, Stage.APPOINT, lambda r: {**r, "signatures": flipped(r["signatures"])}, [opener])
    plan = nodes.play(1)
    assert report_of(plan, Stage.APPOINT).dropped == {"UntrustedError": 1}
    assert report_of(plan, Stage.APPOINT, 1).dropped == {}
    assert (plan.num_registered, nodes.errors) == (len(nodes.ids), [])
