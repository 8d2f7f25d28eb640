"""Tests of simulated nodes that run in the server's process."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, dubhe, skewed_counts
from protocol.nodes import set_policy
from protocol.server import alter

from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Stage
from dubhe_flwr.protocol.simulated_nodes import SimulatedNodes
from dubhe_flwr.rules import Paper, Prices

COUNTS = skewed_counts(30)
PRICES: dict[str, Any] = {"rule": Prices(), "num_participants": 6}


def federation(num_willing: int = 0, **settings: Any) -> Federation[Any]:
    """Return nodes that register every other round, some of which decide for themselves."""
    usual: dict[str, Any] = {"simulation": "plain", "registration_interval": 2}
    nodes = dubhe(COUNTS, **usual | settings)
    for node_id in nodes.ids[:num_willing]:
        set_policy(nodes, node_id, willing=lambda server_round: server_round != 2)
    return nodes


def rounds(nodes: Federation[Any], played: SimulatedNodes | None) -> list[Plan]:
    """Play four rounds; some nodes' labels change in the second epoch."""
    plans = []
    for server_round in range(1, 5):
        if server_round == 3:
            for node_id, counts in zip(nodes.ids[:9], COUNTS[9:], strict=False):
                set_policy(nodes, node_id, label_counts=partial(np.array, counts))
        outcome = nodes.begin(server_round)
        while isinstance(outcome, Batch):
            deliver = nodes.deliver
            outcome = nodes.step(played.exchange(outcome, deliver) if played else deliver(outcome))
        plans.append(replace(outcome, epoch=None))
    return plans


@pytest.mark.parametrize(
    ("settings", "num_willing"),
    [
        (PRICES, 0),
        (PRICES | {"equal_weights": False}, 2),
        ({"rule": Prices(), "num_participants": 9, "tries": 1}, 2),
        ({"rule": Paper((1, 4), "search"), "num_participants": 5, "rounds_per_draw": 2}, 0),
    ],
    ids=["prices", "weighted", "one try", "search"],
)
def test_the_server_answers_as_the_nodes_would(settings: Any, num_willing: int) -> None:
    """The same plans, to the byte, by one message in each epoch to a node without `willing`."""
    itself, played = (federation(num_willing, **settings) for _ in range(2))
    assert rounds(played, SimulatedNodes()) == rounds(itself, None)
    asked = [exchange.node_id for exchange in played.exchanges if exchange.stage == Stage.JOIN]
    assert sorted(asked) == sorted(2 * played.ids)
    later = {exchange.node_id for exchange in played.exchanges if exchange.stage != Stage.JOIN}
    assert later == set(played.ids[:num_willing])


@pytest.mark.parametrize(
    ("simulation", "told"),
    [("plain", b"odd"), ("plain", bytes(16)), ("plain", NodeFailure("")), ("encrypted", bytes(32))],
)
def test_impossible_counts_exclude_only_their_node(simulation: str, told: Any) -> None:
    """False or unexpected numbers, or an error; under encryption no other node tells any."""
    nodes = federation(**PRICES, simulation=simulation)
    spoilt = nodes.ids[4]
    answer = (lambda r: {**r, "label-counts": told}) if isinstance(told, bytes) else lambda _: told
    alter(nodes, Stage.JOIN, answer, [spoilt])
    assert [plan.num_registered for plan in rounds(nodes, SimulatedNodes())] == [29] * 4
    if simulation == "encrypted":
        replies: list[Any] = [e.reply for e in nodes.exchanges if e.node_id != spoilt]
        assert not any("label-counts" in reply for reply in replies)
        asked = {e.node_id for e in nodes.exchanges if e.stage == Stage.SETTLE}
        assert asked == set(nodes.ids) - {spoilt}
