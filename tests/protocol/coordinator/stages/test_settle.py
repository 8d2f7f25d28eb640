"""Tests of the stage `settle`: sums go out, and what nodes add to the next sum comes back."""

from typing import Any

import pytest
from protocol.federation import epoch_of
from protocol.nodes import set_policy
from protocol.server import (
    SEARCH,
    alter,
    altered,
    awaiting,
    federation,
    lost,
    report_of,
    stages_of,
    wills,
    without,
)

from dubhe_flwr.protocol.coordinator.stages.settle import Settle


@pytest.mark.parametrize("num_away", [4, 12])
def test_nodes_without_draws_stay_registered(num_away: int) -> None:
    """At its owner's daily limit, a node settles; the epoch goes on, and it may draw tomorrow."""
    nodes = federation(**SEARCH, policy={"simulated": False}, on_failure="random")
    away = nodes.ids[:num_away]
    for node_id in away:
        set_policy(nodes, node_id, max_draws_per_day=2)
    plan = nodes.play(1)
    assert report_of(plan, "settle", 1).dropped == {"owner's daily limit": num_away}
    assert plan.fallback == (num_away == 12)
    assert plan.fallback or not set(away) & set(plan.participants)
    assert all("owner's daily limit at settle: 12); ask the nodes' owners" in n for n in plan.notes)
    for node_id in away:
        set_policy(nodes, node_id, max_draws_per_day=999)
    plan = nodes.play(2)
    assert stages_of(plan) == ["participate", "determine"]
    assert report_of(plan, "participate").accepted == 12


def test_a_node_that_declines_is_not_drawn_at_random() -> None:
    """A node whose draws decline the round is left out, even if too few nodes settled."""
    nodes = federation(**SEARCH, on_failure="random")
    (unwilling,) = wills(nodes, [4], lambda server_round: server_round != 1)
    others = [node_id for node_id in nodes.ids if node_id != unwilling]
    alter(nodes, "settle", lambda reply: reply if "contribution" in reply else None, others)
    plan = nodes.play(1, nodes.ids[:5])
    assert plan.fallback
    assert set(plan.participants) == set(nodes.ids[:4])


def test_the_finding_of_most_nodes_counts() -> None:
    """A node that reports another finding is ignored; one that goes on alone is dropped."""
    nodes = federation(**SEARCH)
    other, late = nodes.ids[2:5], nodes.ids[5]

    def spoil(stage: str, node_id: int, reply: Any) -> Any:
        if stage != "settle" or "contribution" in reply:
            return reply
        if node_id == late:
            kept = {name: what for name, what in reply.items() if not name.startswith("draws.")}
            return {**kept, "contribution": awaiting(nodes, Settle).registered.last_sum.sums}
        return {**reply, "finding": bytes(16)} if node_id in other else reply

    nodes.alter_reply = spoil
    plan = nodes.play(1)
    assert "thresholds {1: 0.5, 2: 0.1}" in str(plan.rule)
    assert report_of(plan, "settle", 1).dropped == {"not settled": 1}
    assert epoch_of(nodes).registered == tuple(n for n in nodes.ids if n != late)


@pytest.mark.parametrize(
    ("num_early", "dropped"),
    [(6, {"settled too early": 6}), (7, {"not settled": 5, "owner's daily limit": 7})],
)
def test_the_rule_is_settled_once_most_nodes_say_so(num_early: int, dropped: Any) -> None:
    """A minority is dropped, whether it settles early or goes on; these nodes do not draw."""
    nodes = federation(**SEARCH, on_failure="random")
    alter(nodes, "settle", without("contribution"), nodes.ids[:num_early])
    plan = nodes.play(1)
    assert report_of(plan, "settle").dropped == dropped
    assert plan.fallback == (num_early == 7)
    assert plan.fallback or epoch_of(nodes).registered == tuple(nodes.ids[6:])


def test_an_epoch_with_fewer_nodes_draws_for_fewer_rounds() -> None:
    """Agents' sums last for fewer rounds if nodes drop as they settle."""
    nodes = federation(rounds_per_draw=8, tries=4, registration_interval=8)
    alone, other = nodes.ids[:7], federation(rounds_per_draw=8, tries=4, registration_interval=8)
    with altered(nodes, "settle", lost, nodes.ids[7:]):
        nodes.play(1)
    other.play(1)
    assert len(epoch_of(nodes).rounds) < len(epoch_of(other).rounds)
    assert epoch_of(nodes).registered == tuple(alone)
