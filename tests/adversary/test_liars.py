"""Clients that lie: one that always says yes, and one that registers what does not add up."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import dubhe

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.rules import Paper, Prices

N, K, ROUNDS = 100, 10, 30
LIAR = 3


def counts() -> Any:
    """Return skewed label counts of a hundred clients; class 0 is ten times as common as 9."""
    rng, common = generator(0, "counts"), np.geomspace(10, 1, 10)
    shares = rng.dirichlet(3 * common / common.sum(), size=N)
    return np.array([rng.multinomial(1000, share) for share in shares])


@pytest.mark.parametrize(
    ("rule", "determination", "trained"),
    [
        (Paper((1, 2, 10)), "tries", 28),
        (Paper((1, 2, 10)), "grouped", 11),
        (Prices(), "tries", 24),
        (Prices(), "grouped", 9),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_a_client_that_always_says_yes(rule: Any, determination: str, trained: int) -> None:
    """Where 3 of 30 rounds are fair it trains in so many: nothing proves a draw."""
    options: dict[str, Any] = {"tries": 10} if determination == "tries" else {}
    nodes = dubhe(
        counts(),
        rule=rule,
        determination=determination,
        num_participants=K,
        simulation="plain",
        max_registered=200,
        **options,
    )
    liar = nodes.ids[LIAR]

    def always(stage: str, node_id: int, reply: Any) -> Any:
        if stage != "participate" or node_id != liar:
            return reply
        return {**reply, "decisions": b"\xff" * len(reply["decisions"])}

    nodes.alter_reply = always
    plans = nodes.rounds(1, ROUNDS)
    # What an operator can look at: the names of those who train, over some rounds.
    assert sum(str(LIAR) in plan.aliases for plan in plans) == trained
