"""Whatever happens to messages, nodes and server, a round is planned or given up as agreed."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.federation import Reply, skewed_counts
from protocol.weather import Weather

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Batch, Plan
from dubhe_flwr.protocol.coordinator.context import Rest
from dubhe_flwr.rules import Frame, Paper, Population, Prices, Tries, register_rule

NUM_NODES, NUM_ROUNDS = 8, 6
COUNTS = skewed_counts(NUM_NODES)
GIVEN, SEARCH = Paper((1, 2, 4), {1: 0.6, 2: 0.3}), Paper((1, 2, 4), "search")
MAX_BATCHES = 1 + 7 * (1 + 3 + 3 + 3 + 1) + 1
"""Seven epochs after an old one, with three keys and three sums each, and one to determine."""

PRIVATE_DRAWS: Final = "dubhe_flwr.protocol.node.round.private_draws"
PRIVATE_BITS: Final = "dubhe_flwr.protocol.node.settle.secrets.randbits"  # of noise and rounding


@register_rule
@dataclass(frozen=True)
class Eager(Prices):
    """Prices that read sums even with eight nodes; at most three, without noise."""

    noise: float = 0.0

    name: ClassVar[str] = f"prices of few, of {__name__}"  # pytest imports this module twice

    def can_continue(self, population: Population) -> bool:
        """Return False: the last sum need not settle these prices, so each epoch starts afresh."""
        return False

    def num_sums(self, frame: Frame) -> int:
        """Return one sum more than a search for thresholds reads."""
        return 3


class Watched(Weather):
    """Checks each batch, each report and each plan."""

    def deliver(self, batch: Batch) -> dict[int, Reply]:
        """Check who is asked, and that the server awaits replies to exactly this batch."""
        assert self.num_batches < MAX_BATCHES
        assert set(batch.requests) <= self.present
        assert not isinstance(self.state.stage, Rest)
        assert self.state.stage.batch is batch
        return super().deliver(batch)

    def step(self, replies: Mapping[int, Reply]) -> Batch | Plan:
        """Let the server go on, and check that it accounts for each request once."""
        num_reports = len(self.state.round.reports)
        outcome = super().step(replies)
        report = self.state.round.reports[num_reports]
        assert report.accepted + sum(report.dropped.values()) == report.sent
        assert report.dropped.get("StaleMessageError", 0) >= self.num_old
        return outcome

    def play_round(self, server_round: int) -> Plan:
        """Check who trains, and that no node decrypted more sums than it agreed to."""
        plan = super().play_round(server_round)
        assert plan.server_round == server_round
        assert len(set(plan.participants)) == len(plan.participants) <= 3
        assert set(plan.participants) <= self.eligible
        assert not set(plan.participants) & set().union(*self.said_no.values())
        assert plan.participants or plan.fallback
        aliases = [str(self.ids.index(node_id)) for node_id in plan.participants]
        known = [alias for alias in plan.aliases if len(alias) < 3]  # others are node ids
        assert known == [alias for alias in aliases if alias in known]
        assert plan.fallback or list(plan.aliases) == aliases
        for node_id in self.ids:
            joined = self.session(node_id).memory.joined
            if joined is not None and joined.registered:
                assert joined.registered.num_sums <= (NUM_NODES - 1) // 2
        return plan


def play(seed: int, share: float, on_failure: str, max_registered: int, **options: Any) -> None:
    """Play rounds in which a share of the messages is hit, and one more, in which none is."""
    nodes = Watched(
        COUNTS,
        seed,
        share,
        {"min_cohort": 2},
        num_participants=3,
        min_cohort=2,
        registration_interval=4,
        max_unregistered=0.0,
        on_failure=on_failure,
        max_registered=max_registered,
        **options,
    )
    draws, bits = np.random.default_rng(seed), Random(seed)  # not the operating system's
    with patch(PRIVATE_DRAWS, draws.random), patch(PRIVATE_BITS, bits.getrandbits):
        for server_round in range(1, NUM_ROUNDS + 1):
            try:
                plan = nodes.play_round(server_round)
            except QuorumError:
                assert on_failure == "raise"
            else:
                assert plan.fallback <= (on_failure == "random")
                assert all(report.sent <= max_registered for report in plan.stages)
        nodes.share = 0.0
        nodes.unwilling.clear()
        plan = nodes.play_round(NUM_ROUNDS + 1)
    assert not plan.fallback
    assert len(plan.participants) == 3 or len(plan.notes) > 0


@pytest.mark.parametrize("num_runs", [30, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_run_weathers_any_storm(num_runs: int) -> None:
    """Nodes and server restart, change their minds and leave; messages are lost, old or spoilt."""
    storms = given(
        seed=st.integers(0, 2**32),
        share=st.sampled_from([0.03, 0.1, 0.3]),
        on_failure=st.sampled_from(["raise", "random"]),
        max_registered=st.sampled_from([20, 20, 5]),
        rule=st.sampled_from([GIVEN, GIVEN, SEARCH, Eager(), Eager(0.1, 1.0)]),
        determination=st.sampled_from([Tries(2), Tries(2), Tries(1)]),
        simulation=st.sampled_from([None, "encrypted", "plain"]),
        rounds_per_draw=st.sampled_from([1, 1, 3]),
    )
    settings(max_examples=num_runs)(storms(play))()
