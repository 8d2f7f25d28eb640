"""Hypothesis looks for an order of events that breaks the coordinator or the sessions."""

import json
import random
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from protocol.accidents import spoilt
from protocol.eager import Eager
from protocol.federation import node_ids, node_policies, skewed_counts

from dubhe_flwr.errors import ProtocolError, QuorumError
from dubhe_flwr.protocol import Batch, NodeFailure, Plan
from dubhe_flwr.protocol.coordinator.context import CoordinatorState, Rest
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.rules import Paper, Tries

NUM_NODES = 8
COUNTS = skewed_counts(NUM_NODES)
IDS = node_ids(NUM_NODES)
TRIES, INTERVAL = 2, 4
GIVEN = Paper((1, 2, 4), {1: 0.6, 2: 0.3})
MAX_BATCHES = 1 + 7 * (1 + 3 + 3 + 3 + 1) + 1
"""Seven epochs after an old one, with three keys and three sums each, and one to determine."""

PRIVATE_DRAWS: Final = "dubhe_flwr.protocol.node.round.private_draws"
PRIVATE_BITS: Final = "dubhe_flwr.protocol.node.settle.secrets.randbits"  # of noise and rounding

nodes = st.sampled_from(IDS)
some_nodes = st.sets(nodes)


class Federation(RuleBasedStateMachine):
    """One server, eight nodes, and a network that does what it likes."""

    @initialize(
        seed=st.integers(0, 2**32),
        rule=st.sampled_from([GIVEN, GIVEN, Paper((1, 2, 4), "search"), Eager(), Eager(0.1, 1.0)]),
        determination=st.sampled_from([Tries(TRIES), Tries(TRIES), Tries(1)]),
        simulation=st.sampled_from([None, "encrypted", "plain"]),
        on_failure=st.sampled_from(["raise", "random"]),
        rounds_per_draw=st.sampled_from([1, 1, 3]),
        max_registered=st.sampled_from([20, 20, 5]),
    )
    def begin(self, seed: int, **options: Any) -> None:
        """Start the server and the nodes."""
        self.selector = Coordinator(
            Settings(
                num_participants=3,
                min_cohort=2,
                registration_interval=INTERVAL,
                max_unregistered=0.0,
                equal_weights=True,
                key_bits=512,
                seed=seed,
                **options,
            )
        )
        self.random = random.Random(seed)
        self.draws = np.random.default_rng(seed)  # instead of the operating system's
        self.unwilling: set[int] = set()
        self.sessions: dict[int, ClientSession] = {}
        policies = node_policies(COUNTS, min_cohort=2)
        for node_id, policy in zip(IDS, policies, strict=True):
            willing = partial(self.is_willing, node_id)
            self.sessions[node_id] = ClientSession(replace(policy, willing=willing))
        self.replies: dict[int, list[Any]] = {node_id: [] for node_id in IDS}
        self.server_round = 0
        self.state = self.selector.initial_state()
        self.stored = [self.state]
        self.batch: Batch | None = None
        self.empty_the_inbox()

    def is_willing(self, node_id: int, _server_round: int) -> bool:
        """Return whether a node is currently willing."""
        return node_id not in self.unwilling

    def is_genuine(self, node_id: int, reply: Any) -> bool:
        """Return whether the reply is what the node answered to the current batch."""
        return reply is self.answers.get(node_id)

    def empty_the_inbox(self) -> None:
        """Begin with no reply to the current batch."""
        self.inbox: dict[int, Any] = {}
        self.answers: dict[int, Any] = {}
        self.replayed: dict[int, Any] = {}

    def go_on(self, step: Any) -> None:
        """Let the server take a step, and check the outcome."""
        try:
            self.state, outcome = step()
        except QuorumError:
            assert self.selector.settings.on_failure == "raise"
            self.batch = None
            return
        self.batch = outcome if isinstance(outcome, Batch) else None
        self.empty_the_inbox()
        if isinstance(outcome, Batch):
            self.num_batches += 1
            assert self.num_batches <= MAX_BATCHES
            assert set(outcome.requests) <= self.present
            assert len(outcome.requests) <= self.selector.settings.max_registered
        else:
            self.check(outcome)
            self.stored.append(self.state)
        json.dumps(self.selector.state_dict(self.state))

    def check(self, plan: Plan) -> None:
        """Check who trains."""
        assert plan.server_round == self.server_round
        assert len(set(plan.participants)) == len(plan.participants) <= 3
        assert set(plan.participants) <= self.present
        assert not set(plan.participants) & set().union(*self.said_no.values())
        assert plan.participants or plan.fallback
        assert plan.fallback <= (self.selector.settings.on_failure == "random")
        aliases = [str(IDS.index(node_id)) for node_id in plan.participants]
        known = [alias for alias in plan.aliases if len(alias) < 3]  # others are node ids
        assert known == [alias for alias in aliases if alias in known]
        assert plan.fallback or list(plan.aliases) == aliases

    def ask(self, node_id: int) -> Any:
        """Let a node answer the current batch."""
        assert self.batch is not None
        fields = self.batch.header.seal(self.batch.requests[node_id])
        try:
            with (
                patch(PRIVATE_DRAWS, self.draws.random),
                patch(PRIVATE_BITS, self.random.getrandbits),
            ):
                reply = self.sessions[node_id].handle(fields)
        except ProtocolError as error:
            return NodeFailure.of(error)
        self.replies[node_id].append(reply)
        self.answers[node_id] = reply
        return reply

    @precondition(lambda self: self.batch is None)
    @rule(away=some_nodes)
    def begin_round(self, away: set[int]) -> None:
        """Begin the next round, with the connected nodes."""
        self.play(set() if self.server_round == 0 or len(away) > 3 else away)

    def play(self, away: set[int]) -> None:
        """Let the server begin the next round without these nodes."""
        self.server_round += 1
        self.present = set(IDS) - away
        # Whose last answer in this round, at join or to a draw, was no.
        self.said_no: dict[str, set[int]] = {"status": set(), "unwilling": set()}
        self.num_batches = 0
        self.empty_the_inbox()
        self.go_on(
            lambda: self.selector.begin_round(self.state, self.server_round, list(self.present))
        )

    @precondition(lambda self: self.batch is not None)
    @rule(lost=some_nodes)
    def deliver(self, lost: set[int]) -> None:
        """Carry the batch to all nodes except the lost ones."""
        assert self.batch is not None
        for node_id in self.batch.requests:
            if node_id not in lost | self.inbox.keys():
                self.inbox[node_id] = self.ask(node_id)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def deliver_all_and_step(self) -> None:
        """Deliver the whole batch, as usually happens."""
        self.deliver(set())
        self.step()

    @precondition(lambda self: self.batch is not None)
    @rule()
    def step(self) -> None:
        """Let the server go on with the replies it has."""
        before, batch, inbox = self.state, self.batch, dict(self.inbox)
        assert batch is not None
        for field, yes in (("status", 0), ("unwilling", b"\0"), ("draws.unwilling", b"\0")):
            for node_id, reply in inbox.items():
                if self.is_genuine(node_id, reply) and field in reply:
                    change = set.discard if reply[field] == yes else set.add
                    change(self.said_no[field.removeprefix("draws.")], node_id)
        asked = self.replayed.keys() & batch.requests.keys()
        num_old = sum(inbox.get(node_id) is self.replayed[node_id] for node_id in asked)
        self.go_on(lambda: self.selector.step(before, inbox))
        if self.state is not before:
            report = self.state.round.reports[len(before.round.reports)]
            assert report.accepted + sum(report.dropped.values()) == report.sent
            assert report.dropped.get("StaleMessageError", 0) >= num_old

    @precondition(lambda self: self.inbox)
    @rule(data=st.data())
    def lose_a_reply(self, data: Any) -> None:
        """Lose a reply on its way back."""
        del self.inbox[data.draw(st.sampled_from(sorted(self.inbox)))]

    @precondition(lambda self: self.inbox)
    @rule(data=st.data(), error=st.booleans())
    def spoil_a_reply(self, data: Any, error: bool) -> None:
        """Spoil a reply, or replace it by an error."""
        node_id = data.draw(st.sampled_from(sorted(self.inbox)))
        reply = self.inbox[node_id]
        if error or not self.is_genuine(node_id, reply):
            spoiled: Any = NodeFailure("out of memory")
        else:
            spoiled = spoilt(reply, self.random)
            if isinstance(spoiled.get("alias"), str) and "alias" in reply:
                spoiled["alias"] = reply["alias"]  # any name would be believed
        if not same(spoiled, reply):  # two accidents may undo each other
            self.inbox[node_id] = spoiled

    @precondition(lambda self: self.batch is not None)
    @rule(node_id=nodes)
    def replay_a_reply(self, node_id: int) -> None:
        """Put an old reply in place of the new one."""
        assert self.batch is not None
        now = self.batch.header.epoch, self.batch.header.sequence
        replies = self.replies[node_id]
        if old := [reply for reply in replies if (reply["epoch"], reply["sequence"]) != now]:
            self.inbox[node_id] = self.replayed[node_id] = self.random.choice(old)

    @rule(node_id=nodes)
    def restart_a_node(self, node_id: int) -> None:
        """Bring a node back without its memory."""
        self.sessions[node_id] = ClientSession(self.sessions[node_id].policy)

    @rule(node_id=nodes)
    def change_ones_mind(self, node_id: int) -> None:
        """Make a node unwilling, or willing again."""
        self.unwilling ^= {node_id}

    @precondition(lambda self: self.batch is None)
    @rule(data=st.data())
    def set_back_the_server(self, data: Any) -> None:
        """Restore the server, through a file, from a state that it saved after some round."""
        stored = data.draw(st.sampled_from(self.stored[-4:]))
        text = json.dumps(self.selector.state_dict(stored))
        self.state = self.selector.load_state_dict(json.loads(text))

    @invariant()
    def budgets_hold(self) -> None:
        """No node decrypts more sums than it agreed to in an epoch."""
        for session in getattr(self, "sessions", {}).values():
            joined = session.memory.joined
            if joined is not None and joined.registered:
                assert joined.registered.num_sums <= (NUM_NODES - 1) // 2

    @invariant()
    def the_state_fits_the_batch(self) -> None:
        """Check that the server awaits replies to exactly the current batch."""
        state: CoordinatorState | None = getattr(self, "state", None)
        if state is not None and self.batch is not None:
            assert not isinstance(state.stage, Rest)
            assert state.stage.batch is self.batch

    def teardown(self) -> None:
        """Check that the next round succeeds once the faults stop."""
        if not hasattr(self, "state"):
            return
        self.batch = None
        self.unwilling.clear()
        plans: list[Plan] = []
        self.check = plans.append  # type: ignore[method-assign,assignment]
        self.play(set())
        while self.batch is not None:
            self.deliver_all_and_step()
        (plan,) = plans
        assert not plan.fallback
        assert len(plan.participants) == 3 or len(plan.notes) > 0


def same(first: Any, second: Any) -> bool:
    """Return whether two replies are equal, including the types of their fields."""
    if not isinstance(first, dict) or first != second:
        return False
    return all(type(value) is type(second[name]) for name, value in first.items())


class TestFederation(Federation.TestCase):  # type: ignore[valid-type,misc]
    """30 runs of up to 50 steps."""

    settings = settings(max_examples=30, stateful_step_count=50)


@pytest.mark.slow
class TestFederationAtLength(Federation.TestCase):  # type: ignore[valid-type,misc]
    """3,000 runs of up to 50 steps."""

    settings = settings(max_examples=3_000, stateful_step_count=50)
