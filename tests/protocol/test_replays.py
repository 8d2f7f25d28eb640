"""Schedules in which old messages arrive again: none counts, and nothing else changes."""

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
from protocol.eager import Eager
from protocol.federation import decrypted, dubhe, epoch_of, joined, skewed_counts

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol import Batch, ClientSession, Fields
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, SETTLEMENT
from dubhe_flwr.rules import Paper, Rule

COUNTS = skewed_counts(6)
SETTINGS: dict[str, Any] = {
    "num_participants": 3,
    "tries": 2,
    "registration_interval": 2,
    "max_registered": 20,
    "on_failure": "random",
}
"""Two epochs in three rounds."""
RULES: dict[str, Rule] = {"paper": Paper((1, 4), "search"), "prices": Eager(0.1, 1.0)}


@cache
def undisturbed(rule: str, seed: int) -> list[Any]:
    """Return the findings and sums of a run without replays."""
    nodes = dubhe(COUNTS, **SETTINGS | {"seed": seed, "rule": RULES[rule]})
    return [result(nodes, nodes.play(server_round)) for server_round in (1, 2, 3)]


def result(nodes: Any, plan: Any) -> Any:
    """Return who trains and why, and the contents of the last sums."""
    own = joined(nodes, nodes.ids[0])
    told = [e.request["sums"] for e in nodes.exchanges if e.stage == "determine"][-1]
    size = own.terms.vault.vector_bytes(DISTRIBUTION)
    sums = [told[start : start + size] for start in range(0, len(told), size)]
    return (
        (plan.aliases, plan.chosen, plan.finding, plan.notes, plan.fallback),
        decrypted(own, SETTLEMENT, epoch_of(nodes).last_sum.sums).tolist(),
        [decrypted(own, DISTRIBUTION, vector).tolist() for vector in sums],
    )


class Schedule:
    """One run under replays, drawn from a seed."""

    def __init__(self, rule: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = dubhe(COUNTS, **SETTINGS | {"seed": seed % 5, "rule": RULES[rule]})
        self.requests: dict[int, list[Fields]] = {node_id: [] for node_id in self.nodes.ids}
        self.replies: dict[int, list[Any]] = {node_id: [] for node_id in self.nodes.ids}
        self.refused: Counter[str] = Counter()

    def play(self, server_round: int) -> Any:
        """Play a round."""
        nodes = self.nodes
        outcome = nodes.begin(server_round)
        while isinstance(outcome, Batch):
            order = self.rng.sample(list(outcome.requests), len(outcome.requests))
            shuffled = Batch(outcome.header, {n: outcome.requests[n] for n in order})
            replies = self.deliver(shuffled)
            self.show_old_replies(nodes.state, outcome, replies)
            outcome = nodes.step(replies)
        return outcome

    def deliver(self, batch: Batch) -> dict[int, Any]:
        """Carry a batch to the nodes, and old requests with it."""
        for node_id in batch.requests:
            self.replay(node_id, batch.header.stage)
        replies = self.nodes.deliver(batch)
        for node_id, request in batch.fields.items():
            self.requests[node_id].append(request)
            self.replies[node_id].append(replies[node_id])
            self.replay(node_id, batch.header.stage)
        return replies

    def replay(self, node_id: int, stage: str) -> None:
        """Deliver an old request again, or the last one twice; the node has to refuse it."""
        if not self.requests[node_id] or self.rng.random() < 0.7:
            return
        session: ClientSession = self.nodes.session(node_id)
        before = session.memory
        with pytest.raises(ProtocolError):
            session.handle(self.rng.choice(self.requests[node_id]))
        assert session.memory is before
        self.refused[stage] += 1

    def show_old_replies(
        self, state: CoordinatorState, batch: Batch, replies: dict[int, Any]
    ) -> None:
        """Replace some replies with old ones; the server has to drop each of them."""
        forged = {
            node_id: self.rng.choice(self.replies[node_id][:-1])
            for node_id in replies
            if len(self.replies[node_id]) > 1 and self.rng.random() < 0.3
        }
        if not forged or self.rng.random() < 0.5:
            return
        after, _ = self.nodes.selector.step(state, replies | forged)
        report = after.round.reports[len(state.round.reports)]
        assert report.stage == batch.header.stage
        assert report.dropped == {"StaleMessageError": len(forged)}
        self.refused["server"] += len(forged)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("number", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_replay_is_accepted_and_no_sum_changes(number: int, rule: str) -> None:
    """Every replay is refused; all sums and sets are the same as in an undisturbed run."""
    refused: Counter[str] = Counter()
    for seed in range(number):
        schedule = Schedule(rule, seed)
        for server_round in (1, 2, 3):
            plan = schedule.play(server_round)
            assert result(schedule.nodes, plan) == undisturbed(rule, seed % 5)[server_round - 1]
        refused += schedule.refused
    stages = {"join", "keygen", "register", "settle", "participate", "determine", "server"}
    assert set(refused) == stages
    assert min(refused.values()) > number // 4
    assert refused.total() > 15 * number
