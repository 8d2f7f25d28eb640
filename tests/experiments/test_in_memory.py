"""Nodes in memory go through the whole protocol, and their refusals are counted."""

from collections.abc import Collection
from functools import partial
from itertools import islice

import numpy as np

from dubhe_flwr.baselines import RandomSelector
from dubhe_flwr.experiments.in_memory import rounds_in_memory
from dubhe_flwr.protocol import (
    Batch,
    Coordinator,
    NodeFailure,
    NodePolicy,
    Plan,
    Replies,
    Selector,
    Settings,
    Stage,
)
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import KeygenRequest


def nodes(number: int, min_key_bits: int = 512) -> list[NodePolicy]:
    """Return nodes that hold one class or the other."""
    return [
        NodePolicy(
            label_counts=partial(np.array, [9, 1] if row % 3 else [1, 9]),
            alias=str(row),
            seeded_draws=True,
            min_key_bits=min_key_bits,
        )
        for row in range(number)
    ]


SETTINGS = Settings(
    num_participants=3, reference_set=(1, 2), thresholds={1: 0.7}, tries=3, key_bits=512, seed=1
)


def test_each_round_has_its_stages() -> None:
    """The first round registers, the others draw and determine only."""
    plans = list(islice(rounds_in_memory(Coordinator(SETTINGS), nodes(12)), 3))
    assert [plan.server_round for plan in plans] == [1, 2, 3]
    stages = [[stage.stage for stage in plan.stages] for plan in plans]
    begin = ["join", "keygen", "register", "moments", "calibrate"]
    assert stages[0] == [*begin, "participate", "determine"]
    assert stages[1] == stages[2] == ["participate", "determine"]
    for plan in plans:
        assert len(plan.participants) == 3
        assert plan.participants == tuple(map(int, plan.aliases))


def test_a_node_that_refuses_is_counted_and_left_out() -> None:
    """One that wants larger keys does not join."""
    refusing = nodes(11) + nodes(1, min_key_bits=2048)
    plan = next(rounds_in_memory(Coordinator(SETTINGS), refusing))
    joined = plan.stages[0]
    assert (joined.sent, joined.accepted) == (12, 11)
    assert plan.num_registered == 11
    assert 11 not in plan.participants


class Careless(Selector[Batch | None]):
    """Asks nodes to make a key before they joined, and selects nobody."""

    num_participants = 0
    replies: Replies

    def initial_state(self) -> None:
        """Return nothing."""

    def begin_round(
        self,
        state: Batch | None,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[Batch, Batch]:
        header = Envelope(bytes(16), Stage.KEYGEN.value, sequence=1)
        batch = Batch(header, dict.fromkeys(present, KeygenRequest(b"")))
        return batch, batch

    def step(self, state: Batch | None, replies: Replies) -> tuple[Batch | None, Plan]:
        self.replies = replies
        return state, Plan(1, (), ())


def test_an_error_of_a_node_is_its_reply() -> None:
    """As in every runtime, a refusal does not end the round of the others."""
    selector = Careless()
    assert next(rounds_in_memory(selector, nodes(2))).participants == ()
    assert set(selector.replies) == {0, 1}
    for reply in selector.replies.values():
        assert isinstance(reply, NodeFailure)
        assert "not in" in reply.reason


def test_it_drives_any_selector() -> None:
    """Nodes say hello once, and are chosen by the selector's rule."""
    plans = list(islice(rounds_in_memory(RandomSelector(4, seed=5), nodes(9)), 2))
    assert [len(plan.stages) for plan in plans] == [1, 0]
    assert all(len(set(plan.participants)) == 4 for plan in plans)
