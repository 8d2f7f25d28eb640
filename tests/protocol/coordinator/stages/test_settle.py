"""Tests of the stage `settle`: sums go out, and what nodes add to the next sum comes back."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import dubhe, epoch_of, skewed_counts
from protocol.server import (
    SEARCH,
    SETTINGS,
    Nodes,
    alter,
    altered,
    asked,
    awaiting,
    lost,
    report_of,
    stages_of,
)

from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_flwr.core.registration import participation_probability
from dubhe_flwr.core.search import best_candidate, search_contribution
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol.coordinator.stages.settle import Settle
from dubhe_flwr.rules import Paper
from dubhe_lab.data.measures import overall_registry

RULE = Paper((1, 2, 4), thresholds="search")


COUNTS = skewed_counts(12, seed=3)


def searching(**overrides: Any) -> Nodes:
    """Return twelve nodes and a server whose rule takes two sums."""
    return dubhe(COUNTS, **SETTINGS | SEARCH | overrides)


def best_in_the_clear(rows: list[int]) -> tuple[float, ...]:
    """Return the best thresholds, from the expectations of some of the twelve clients."""
    registered = [overall_registry(COUNTS, RULE.codebook, c) for c in RULE.candidates]
    likely = np.array([participation_probability(each, 4)[slots] for each, slots in registered])
    tables = [
        search_contribution(fixed_point_distribution(COUNTS[row]), likely[:, row]) for row in rows
    ]
    return tuple(RULE.candidates[best_candidate(np.sum(tables, axis=0))].values())


@pytest.mark.parametrize("settings", [{}, {"simulation": "plain"}], ids=str)
def test_the_best_candidate_is_found(settings: dict[str, Any]) -> None:
    """All clients' expectations decide; the plan names it, and the nodes draw with the last sum."""
    nodes = searching(**settings)
    plan = nodes.play(1)
    assert plan.finding == best_in_the_clear(list(range(12))) == epoch_of(nodes).finding
    assert "thresholds {1: 0.9, 2: 0.2}" in str(plan.rule)
    epoch = epoch_of(nodes)
    assert (epoch.last_sum.exchange, epoch.last_sum.num_clients) == (1, 12)
    draws = {e.node_id: e.request for e in nodes.exchanges if e.stage == "participate"}
    assert {(r["exchange"], r["sums"]) for r in draws.values()} == {(1, epoch.last_sum.sums)}


def test_a_node_that_missed_an_exchange_is_out_of_the_epoch() -> None:
    """Sums cover the nodes that answered; the shares still count all registered nodes."""
    nodes = searching(registration_interval=4, max_unregistered=1.0)
    out = nodes.ids[:3]
    with altered(nodes, "settle", lost, out):
        plan = nodes.play(1)
    assert [(r.sent, r.accepted) for r in plan.stages if r.stage == "settle"] == [(12, 9), (9, 9)]
    assert plan.finding == best_in_the_clear(list(range(3, 12)))  # all nodes would give another one
    epoch = epoch_of(nodes)
    assert (epoch.registered, len(epoch.distributions)) == (tuple(nodes.ids[3:]), 9)
    assert (epoch.num_registered, epoch.last_sum.num_clients) == (12, 9)
    assert epoch.sums_per_agent == 5
    assert not set(out) & set(asked(nodes, "participate"))
    for server_round in (2, 3):
        assert not set(out) & set(nodes.play(server_round).participants)
    assert (nodes.play(5).num_registered, nodes.errors) == (12, [])


@pytest.mark.parametrize("position", [0, 1])
def test_too_few_contributions_end_the_round(position: int) -> None:
    """A quorum is needed in each exchange; the next round registers anew."""
    nodes = searching()

    def lose(stage: str, node_id: int, reply: Any) -> Any:
        is_late = (
            stage == "settle" and awaiting(nodes, Settle).registered.last_sum.exchange == position
        )
        return None if is_late and node_id not in nodes.ids[:2] else reply

    nodes.alter_reply = lose
    what = ("registered and went on with the rule", "settled")[position]
    with pytest.raises(QuorumError, match=f"2 nodes are {what}, fewer than quorum=3"):
        nodes.play(1)
    assert nodes.state.epoch is None
    nodes.alter_reply = lambda _s, _n, reply: reply
    plan = nodes.play(2)
    assert (stages_of(plan)[0], plan.num_registered) == ("join", 12)


def test_the_finding_of_most_nodes_counts() -> None:
    """A node that reports another finding is ignored; one that goes on alone is dropped."""
    nodes = searching()
    other, late = nodes.ids[2:5], nodes.ids[5]

    def spoil(stage: str, node_id: int, reply: Any) -> Any:
        if stage != "settle" or "contribution" in reply:
            return reply
        if node_id == late:
            vector = epoch_sum(nodes)
            return {**reply, "contribution": vector}
        return {**reply, "finding": bytes(16)} if node_id in other else reply

    nodes.alter_reply = spoil
    plan = nodes.play(1)
    assert plan.finding == best_in_the_clear(list(range(12)))
    assert report_of(plan, "settle", 1).dropped == {"not settled": 1}
    assert epoch_of(nodes).registered == tuple(n for n in nodes.ids if n != late)


def test_a_minority_that_settles_early_is_dropped() -> None:
    """The rule is settled once more than half of the nodes say so."""
    nodes = searching()

    def settled(reply: Any) -> Any:
        return {name: value for name, value in reply.items() if name != "contribution"}

    alter(nodes, "settle", settled, nodes.ids[:6])
    plan = nodes.play(1)
    assert report_of(plan, "settle").dropped == {"settled too early": 6}
    assert plan.finding == best_in_the_clear(list(range(6, 12)))
    assert epoch_of(nodes).registered == tuple(nodes.ids[6:])


def epoch_sum(nodes: Nodes) -> bytes:
    """Return a vector of the right size: the sum that nodes are reading."""
    return awaiting(nodes, Settle).registered.last_sum.sums


def test_a_rule_gets_no_more_sums_than_it_announces() -> None:
    """If most nodes go on beyond that, they draw with the last sum."""
    nodes = searching(on_failure="random")
    nodes.alter_reply = lambda stage, _n, reply: (
        {**reply, "contribution": epoch_sum(nodes)}
        if stage == "settle" and "contribution" not in reply
        else reply
    )
    nodes.play(1)
    requests = [e.request["exchange"] for e in nodes.exchanges if e.stage == "settle"]
    assert set(requests) == {0, 1}
