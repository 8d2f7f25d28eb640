"""Tests of simulated nodes that run in the server's process."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, dubhe, skewed_counts

from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Stage
from dubhe_flwr.protocol.simulated_nodes import SimulatedNodes
from dubhe_flwr.rules import Paper, Prices

COUNTS = skewed_counts(30)
SETTINGS: dict[str, dict[str, Any]] = {
    "prices": {"rule": Prices(), "num_participants": 6},
    "weighted": {"rule": Prices(), "num_participants": 6, "equal_weights": False},
    "one try": {"rule": Prices(), "num_participants": 9, "tries": 1, "pool": 2},
    "search": {"rule": Paper((1, 4), "search"), "num_participants": 5, "rounds_per_draw": 2},
}


def federation(**settings: Any) -> Federation[Any]:
    """Return thirty nodes that register every other round."""
    usual: dict[str, Any] = {"simulation": "plain", "registration_interval": 2}
    return dubhe(COUNTS, **usual | settings)


def rounds(nodes: Federation[Any], played: SimulatedNodes | None) -> list[Plan]:
    """Play four rounds; some nodes' labels change in the second epoch."""
    plans = []
    for server_round in range(1, 5):
        if server_round == 3:
            for node_id, counts in zip(nodes.ids[:9], COUNTS[9:], strict=False):
                policy = replace(nodes.policies[node_id], label_counts=partial(np.array, counts))
                nodes.policies[node_id] = policy
        outcome = nodes.begin(server_round)
        while isinstance(outcome, Batch):
            deliver = nodes.deliver
            outcome = nodes.step(played.exchange(outcome, deliver) if played else deliver(outcome))
        plans.append(replace(outcome, epoch=None))
    return plans


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_server_answers_as_the_nodes_would(settings: dict[str, Any]) -> None:
    """The same plans, to the byte, by one message to a node in each epoch."""
    itself, played = federation(**settings), federation(**settings)
    assert rounds(played, SimulatedNodes()) == rounds(itself, None)
    assert len(played.exchanges) == 2 * len(COUNTS)
    assert played.stages() == [Stage.JOIN]


def test_a_node_with_willing_answers_for_itself() -> None:
    """A node with `willing` answers for itself; the server's process answers for the rest."""
    both = federation(**SETTINGS["one try"]), federation(**SETTINGS["one try"])
    for nodes in both:
        for node_id in nodes.ids[:2]:
            own = replace(nodes.policies[node_id], willing=lambda server_round: server_round != 2)
            nodes.policies[node_id] = own
    assert rounds(both[1], SimulatedNodes()) == rounds(both[0], None)
    asked = {e.node_id for e in both[1].exchanges if e.stage != Stage.JOIN}
    assert asked == set(both[1].ids[:2])


def test_encrypted_nodes_do_not_report_their_labels() -> None:
    """Under encryption no node tells its labels, and each answers for itself."""
    nodes = federation(**SETTINGS["prices"] | {"simulation": "encrypted"})
    rounds(nodes, SimulatedNodes())
    replies: list[Any] = [e.reply for e in nodes.exchanges]
    assert not any("label-counts" in reply for reply in replies)
    assert {e.node_id for e in nodes.exchanges if e.stage == Stage.PARTICIPATE} == set(nodes.ids)


@pytest.mark.parametrize(
    ("simulation", "told"),
    [("plain", b"odd"), ("plain", bytes(16)), ("plain", NodeFailure("")), ("encrypted", bytes(32))],
)
def test_impossible_counts_exclude_only_their_node(simulation: str, told: Any) -> None:
    """Missing, false or unexpected numbers, and an error, each exclude only that node."""
    nodes = federation(**SETTINGS["prices"] | {"simulation": simulation})
    spoilt = nodes.ids[4]
    answer = (lambda r: {**r, "label-counts": told}) if isinstance(told, bytes) else lambda _: told
    nodes.alter_reply = lambda stage, node_id, reply: (
        answer(reply) if (stage, node_id) == (Stage.JOIN, spoilt) else reply
    )
    assert [plan.num_registered for plan in rounds(nodes, SimulatedNodes())] == [29] * 4
