"""Whatever is lost, an honest server is never refused by an honest node, and selects rightly."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from protocol.federation import Federation, dubhe, epoch_of, skewed_counts

from dubhe_flwr.core import generator
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import CoordinatorState, Plan, Stage

NUM_CLIENTS = 13
COUNTS = skewed_counts(NUM_CLIENTS)


@dataclass(frozen=True)
class Trouble:
    """A selection, and what goes wrong with it."""

    seed: int
    num_participants: int
    tries: int
    rounds_per_draw: int
    registration_interval: int
    agent_attempts: int
    lost: float
    away: float
    unwilling: float
    lossy: Stage | None
    participation: str = "paper"
    determination: str = "tries"
    thresholds: Any = None
    on_failure: str = "raise"

    def federation(self) -> Federation[CoordinatorState]:
        """Return nodes with a will of their own, and budgets as tight as they can be."""
        nodes = dubhe(
            COUNTS,
            num_participants=self.num_participants,
            reference_set=(1, 4) if self.thresholds == "search-tries" else (1, 2, 4),
            thresholds=self.thresholds or {1: 0.6, 2: 0.3},
            tries=self.tries,
            rounds_per_draw=self.rounds_per_draw,
            registration_interval=self.registration_interval,
            max_draws_per_epoch=self.draws_per_epoch(),
            participation=self.participation,
            determination=self.determination,
            group_size=3,
            agent_attempts=self.agent_attempts,
            max_unregistered=0.0,
            on_failure=self.on_failure,
        )
        for row, node_id in enumerate(nodes.ids):
            nodes.policies[node_id] = replace(
                nodes.policies[node_id], willing=partial(self.willing, row)
            )
        return nodes

    def draws_per_epoch(self) -> int:
        """Return the least budget that the settings allow, with a search among three."""
        draws = 1 if self.determination == "one-off" else self.tries
        a_try = self.tries if self.determination == "grouped" else 1
        search = 3 * a_try * self.tries if self.thresholds == "search-tries" else 0
        return draws * self.registration_interval + search

    def willing(self, row: int, server_round: int) -> bool:
        """Tell whether a node is willing in a round."""
        luck = generator(self.seed, "willing", row, server_round).random()
        return bool(luck >= self.unwilling)


troubles = st.builds(
    Trouble,
    seed=st.integers(0, 2**32),
    num_participants=st.integers(3, 6) | st.integers(3, NUM_CLIENTS),
    tries=st.integers(1, 5),
    rounds_per_draw=st.integers(1, 4),
    registration_interval=st.integers(1, 8),
    agent_attempts=st.integers(1, 3),
    lost=st.sampled_from([0.0, 0.05, 0.3]),
    away=st.sampled_from([0.0, 0.1, 0.5]),
    unwilling=st.sampled_from([0.0, 0.1, 0.5]),
    lossy=st.sampled_from([None, *list(Stage)[1:]]),
    participation=st.sampled_from(["paper", "calibrated"]),
    determination=st.sampled_from(["tries", "grouped", "one-off"]),
    thresholds=st.sampled_from([None, "search", "search-tries"]),
    on_failure=st.sampled_from(["raise", "random"]),
)


@settings(max_examples=35)
@given(trouble=troubles)
@example(trouble=Trouble(0, 3, 1, 2, 2, 1, 0.0, 0.0, 0.5, None))  # draws of rounds given up
def test_any_losses(trouble: Trouble) -> None:
    """No request of the server is ever refused, and whoever trains is there and willing.

    Requests and replies are lost at one stage or at all, nodes come and go and are unwilling, and
    rounds that end in a quorum error, or go by chance, are followed by the next.
    """
    rng = generator(trouble.seed, "losses")
    nodes = trouble.federation()

    def lose(stage: str, _node_id: int, message: Mapping[str, object]) -> Any:
        hit = trouble.lossy in {None, stage} and rng.random() < trouble.lost
        return None if hit else message

    nodes.alter_request = nodes.alter_reply = lose
    for server_round in range(1, 13):
        present = [i for i in nodes.ids if server_round == 1 or rng.random() >= trouble.away]
        with suppress(*([QuorumError] if trouble.on_failure == "raise" else [])):
            check(trouble, nodes, nodes.play(server_round, present), set(present))
    assert nodes.errors == []


def check(
    trouble: Trouble, nodes: Federation[CoordinatorState], plan: Plan, present: set[int]
) -> None:
    """Check a plan against who could train in its round."""
    assert set(plan.participants) <= present
    if plan.fallback:
        assert trouble.on_failure == "random"
        assert len(set(plan.participants)) == len(plan.participants) <= trouble.num_participants
        return
    drawn = nodes.state.rounds[plan.server_round]
    rows = [nodes.ids.index(node_id) for node_id in plan.participants]
    assert rows == sorted(set(rows))
    assert all(trouble.willing(row, plan.server_round) for row in rows)
    registered = zip(epoch_of(nodes).registered, drawn.available, strict=True)
    could = {node_id for node_id, available in registered if available}
    assert len(rows) == min(trouble.num_participants, len(could & present))
    short = any("clients can train" in note for note in plan.notes)
    assert short == (len(rows) < trouble.num_participants)
    if drawn.agent is not None:
        assert all(drawn.agent not in members for members in drawn.selections)
        assert all(len(members) >= 3 for members in drawn.selections)
    for report in plan.stages:
        assert report.accepted + sum(report.dropped.values()) == report.sent
