"""A server that leaves few nodes, or few nodes' labels, in a sum that a committee opens."""

from typing import Any

import numpy as np
import pytest
from adversary.test_committee import (
    Nodes,
    asked_to_open,
    federation,
    group_key_of,
    member_of,
    members_of,
    noise_of_members,
    open_with,
    without_pads,
)
from numpy.typing import NDArray
from protocol.federation import skewed_counts
from vectors.reference import bits

from dubhe_flwr.core.determination import Tries
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import pads
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.node.memory import LabelBudget, Memory
from dubhe_flwr.protocol.wire.roster import split
from dubhe_flwr.rules import Prices


def opened_over(nodes: Nodes, num_covered: int) -> NDArray[np.int64]:
    """Let the first nodes' registrations reach the sum; return what all nodes sent, without pads.

    It does not contain the members' noise.
    """
    replies: dict[int, Any] = dict(nodes.deliver(nodes.until(Stage.REGISTER)))
    secrets = [split(member_of(nodes, n).pad_keys, pads.KEY_BYTES) for n in members_of(nodes)]
    sent = [
        without_pads(replies[node_id]["registration"], keys, group_key_of(nodes, node_id))[:-1]
        for node_id, keys in zip(nodes.ids, zip(*secrets, strict=True), strict=True)
    ]
    outcome: Any = nodes.step({node_id: replies[node_id] for node_id in nodes.ids[:num_covered]})
    while outcome.header.stage != Stage.SETTLE:
        outcome = nodes.step(nodes.deliver(outcome))
    nodes.deliver(outcome)  # and all of them read the sum
    assert {each.rule_sum.num_clients for each in outcome.requests.values()} == {num_covered}
    assert not nodes.errors
    return np.array(sent, dtype=np.int64)


@pytest.mark.parametrize(
    ("number", "num_participants", "enter"), [(13, 12, True), (12, 12, False), (12, 11, False)]
)
def test_a_server_needs_thirteen_nodes(
    number: int, num_participants: int, *, enter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer, no labels enter a sum; with 13, a sum covers seven, with the usual noise."""
    options: dict[str, Any] = {"num_participants": num_participants, "determination": Tries(1)}
    nodes = federation(number=number, **options)
    added = noise_of_members(monkeypatch)
    sent = opened_over(nodes, -(-number // 2))
    assert len(np.unique(sent, axis=0)) == (number if enter else 1)
    assert added[:3] == pytest.approx([2**18 * Prices.noise / 2 * 5 / 3] * 3)


@pytest.mark.parametrize(("number", "least"), [(13, 7), (4, 3)])
def test_a_member_opens_no_sum_over_fewer(number: int, least: int) -> None:
    """The least is half of the nodes, rounded up, and never below `min_cohort`."""
    nodes = federation(number=number, num_participants=3)
    batch, member, _ = asked_to_open(nodes)
    fewer, enough = (bits(row < size for row in range(number)) for size in (least - 1, least))
    with pytest.raises(RefusedError, match=f"A sum over {least - 1} of {number} nodes is refused"):
        open_with(nodes, batch, member, covered=fewer)
    assert open_with(nodes, batch, member, covered=enough)


def test_a_sum_may_contain_the_labels_of_one_node() -> None:
    """The others have spent their budgets; they still count as covered, with equal shares."""
    nodes, all_counts = federation(), skewed_counts(20)
    for node_id, counts in list(zip(nodes.ids, all_counts.tolist(), strict=True))[1:]:
        budget = LabelBudget().of(tuple(counts)).charged(1.0)
        nodes.memories[node_id] = Memory(budget=budget).to_fields()
    own, *others = opened_over(nodes, 20)
    assert len(np.unique(others, axis=0)) == 1
    told = (own - others[0])[:4] / 2**18 + 1 / 4
    assert told == pytest.approx(all_counts[0] / all_counts[0].sum(), abs=1e-5)
