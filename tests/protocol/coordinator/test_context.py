"""Tests of the state that all stages share: its text, the order of agents, and the quorum."""

from dataclasses import replace

import pytest
from protocol.server import SEARCH, federation

from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import StageReport
from dubhe_flwr.protocol.coordinator.context import (
    Context,
    GivenUpError,
    RoundProgress,
    Run,
)

SETTINGS = federation().selector.settings  # type: ignore[attr-defined]
CONTEXT = Context(SETTINGS, Run(seed=7, server_round=8), RoundProgress())


def test_a_repr_shows_no_ciphertexts() -> None:
    """Megabytes of them in a log help nobody."""
    nodes = federation(**SEARCH)
    nodes.play(1)
    shown = repr(nodes.state)
    assert "Epoch(" in shown
    assert "distributions" not in shown
    assert "last_sum" not in shown


def test_agents_are_drawn_by_the_seed_for_each_round() -> None:
    """The order has each node once."""
    nodes = tuple(range(10, 40))
    agents = CONTEXT.agents(nodes)
    assert sorted(agents) == list(nodes) != list(agents)
    assert agents == CONTEXT.agents(nodes)
    later = replace(CONTEXT, run=replace(CONTEXT.run, server_round=9))
    assert later.agents(nodes) != agents


def test_agents_of_a_refused_epoch_come_last() -> None:
    """Their answer may be the reason; without a refusal, no agent is suspected."""
    nodes = (1, 2, 3, 4, 5, 6)
    first, second, *rest = CONTEXT.agents(nodes)
    with_used_agents = CONTEXT.with_used_agents([first])
    assert with_used_agents.agents(nodes) == (first, second, *rest)
    renewed = replace(with_used_agents, round=replace(with_used_agents.round, num_renewals=1))
    assert renewed.agents(nodes) == (second, *rest, first)


class TestQuorum:
    """If too few nodes are left, the round ends with a sentence that says what to do."""

    @staticmethod
    def sentence(context: Context, num_nodes: int = 2, what: str = "registered") -> str:
        """Return the sentence for a round with this few nodes left."""
        with pytest.raises(GivenUpError) as error:
            context.check_quorum(num_nodes, what, None)
        assert isinstance(error.value, QuorumError)
        assert error.value.context is context
        return str(error.value)

    def test_giving_up_says_what_was_dropped_at_each_stage(self) -> None:
        """How many nodes there are, how many are needed, and why the rest were dropped."""
        lost = {"no reply": [7, 8], "unwilling": [9]}
        context = CONTEXT.reported(StageReport("join", 9, 0, lost, 1, 1))
        context = context.reported(StageReport("register", 9, 0, {"error reply": range(4)}, 1, 1))
        context.check_quorum(3, "registered", None)
        assert self.sentence(context) == (
            "Round 8: 2 nodes are registered, fewer than quorum=3 (2 no reply at join, 1 unwilling "
            "at join, 4 error reply at register); wait for more nodes that are willing and "
            "eligible, raise stage_timeout if replies are late, or lower quorum (and min_cohort)."
        )
        assert "1 nodes are there, fewer than quorum=3 (no reply was dropped)" in self.sentence(
            CONTEXT, 1, "there"
        )
        more = replace(CONTEXT, settings=replace(CONTEXT.settings, quorum=5))
        more.check_quorum(5, "there", None)
        assert "fewer than quorum=5" in self.sentence(more, 4)
