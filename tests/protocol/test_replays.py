"""Schedules of deliveries in which old messages come again: none counts, and nothing else changes.

Nodes get their requests in any order, twice, and with requests of earlier stages and epochs in
between; the server is shown old replies in place of new ones.
"""

import random
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from protocol.federation import decrypted, dubhe, epoch_of, skewed_counts
from protocol.plain import PlainRound, plain_round

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol import Batch, ClientSession, CoordinatorState, Fields, Settings

NUM_SCHEDULES = 1000
NUM_ROUNDS = 3
COUNTS = skewed_counts(6)
SETTINGS: dict[str, Any] = {
    "num_participants": 3,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "participation": "paper",
    "determination": "tries",
    "tries": 2,
    "registration_interval": 2,
    "max_clients": 20,
    "on_failure": "random",
}


@cache
def reference(seed: int, server_round: int) -> PlainRound:
    """Return a round in plain numbers; the second epoch begins with the third round."""
    first_round = 1 if server_round < 3 else 3
    return plain_round(Settings(**SETTINGS, seed=seed), COUNTS, server_round, first_round)


class Schedule:
    """One run under replays, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = dubhe(COUNTS, **SETTINGS | {"seed": seed % 5})
        self.sessions = {n: ClientSession(policy) for n, policy in self.nodes.policies.items()}
        self.requests: dict[int, list[Fields]] = {node_id: [] for node_id in self.nodes.ids}
        self.replies: dict[int, list[Fields]] = {node_id: [] for node_id in self.nodes.ids}
        self.refused: Counter[str] = Counter()

    def play(self, server_round: int) -> Any:
        """Play a round; return the plan and what was asked of the agent."""
        selector, sums = self.nodes.selector, b""
        state, outcome = selector.begin_round(self.nodes.state, server_round, self.nodes.ids)
        while isinstance(outcome, Batch):
            replies = self.deliver(outcome)
            self.show_old_replies(state, outcome, replies)
            if outcome.header.stage == "determine":
                ((_, request),) = outcome.fields()
                assert isinstance(request["sums"], bytes)
                sums = request["sums"]
            state, outcome = selector.step(state, replies)
        self.nodes.state = state
        return outcome, sums

    def deliver(self, batch: Batch) -> dict[int, Fields]:
        """Carry a batch to the nodes in any order, and old requests with it."""
        replies = {}
        requests = list(batch.fields())
        self.rng.shuffle(requests)
        for node_id, request in requests:
            self.replay(node_id, batch.header.stage)
            replies[node_id] = self.sessions[node_id].handle(request)
            self.requests[node_id].append(request)
            self.replay(node_id, batch.header.stage)
        for node_id, reply in replies.items():
            self.replies[node_id].append(reply)
        return replies

    def replay(self, node_id: int, stage: str) -> None:
        """Deliver an old request again, or the last one twice; the node has to refuse it."""
        if not self.requests[node_id] or self.rng.random() < 0.7:
            return
        session = self.sessions[node_id]
        before = session.state
        with pytest.raises(ProtocolError):
            session.handle(self.rng.choice(self.requests[node_id]))
        assert session.state is before
        self.refused[stage] += 1

    def show_old_replies(
        self, state: CoordinatorState, batch: Batch, replies: dict[int, Fields]
    ) -> None:
        """Put old replies in the place of some; the server has to drop each of them."""
        forged = {
            node_id: self.rng.choice(self.replies[node_id][:-1])
            for node_id in replies
            if len(self.replies[node_id]) > 1 and self.rng.random() < 0.3
        }
        if not forged or self.rng.random() < 0.5:
            return
        after, _ = self.nodes.selector.step(state, replies | forged)
        report = after.stages[len(state.stages)]
        assert report.stage == batch.header.stage
        assert report.dropped == {"StaleMessageError": len(forged)}
        self.refused["server"] += len(forged)


def test_no_replay_is_accepted_and_no_sum_changes() -> None:
    """1000 schedules: every replay is refused, and all sums are the reference's, bit for bit."""
    refused: Counter[str] = Counter()
    for seed in range(NUM_SCHEDULES):
        schedule = Schedule(seed)
        nodes = schedule.nodes
        for server_round in range(1, NUM_ROUNDS + 1):
            plan, sums = schedule.play(server_round)
            expected = reference(seed % 5, server_round)
            state = schedule.sessions[nodes.ids[0]].state
            assert state is not None
            registry = decrypted(state, "registry", epoch_of(nodes).overall_registry)
            np.testing.assert_array_equal(registry, expected.overall)
            size = len(sums) // len(expected.selections)
            totals = [
                decrypted(state, "distribution", sums[start : start + size])
                for start in range(0, len(sums), size)
            ]
            np.testing.assert_array_equal(totals, expected.sums)
            assert plan.participants == tuple(nodes.ids[row] for row in expected.chosen)
            assert (plan.notes, plan.fallback) == ((), False)
        refused += schedule.refused
    assert set(refused) == {"join", "keygen", "register", "participate", "determine", "server"}
    assert min(refused.values()) > NUM_SCHEDULES // 4
    assert refused.total() > 15 * NUM_SCHEDULES
