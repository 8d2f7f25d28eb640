"""Twelve nodes and their server, and what can become of a reply, for the tests of the server."""

from typing import Any

import numpy as np
from protocol.federation import Federation, dubhe, skewed_counts

from dubhe_flwr.core import fixed_point_distribution, generator, with_square
from dubhe_flwr.protocol import CoordinatorState, NodeFailure, Plan, StageReport

NUM_CLIENTS = 12
COUNTS = skewed_counts(NUM_CLIENTS)
FIXED = np.array([with_square(fixed_point_distribution(row)) for row in COUNTS])
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 2, 4),
    "thresholds": {1: 0.6, 2: 0.3},
    "tries": 3,
    "max_registered": 20,
}


def federation(num_clients: int = NUM_CLIENTS, **overrides: Any) -> Federation[CoordinatorState]:
    """Return nodes and a server."""
    return dubhe(COUNTS[:num_clients], **SETTINGS | overrides)


def report_of(plan: Plan, stage: str, position: int = 0) -> StageReport:
    """Return the report of a stage."""
    return [report for report in plan.stages if report.stage == stage][position]


def asked(nodes: Federation[CoordinatorState], stage: str) -> list[int]:
    """Return the nodes that were asked at a stage, in order."""
    return [exchange.node_id for exchange in nodes.exchanges if exchange.stage == stage]


def agents_in_turn(nodes: Federation[CoordinatorState], server_round: int = 1) -> list[int]:
    """Return the nodes in the order in which they are to determine a round of the first epoch."""
    order = generator(7, "agents", 1).permutation(len(nodes.ids))
    return [nodes.ids[row] for row in np.roll(order, -(server_round - 1))]


def lost(_reply: Any) -> None:
    """Lose a reply."""


def hello(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a valid reply of another stage."""
    header = {name: reply[name] for name in ("epoch", "sequence", "version")}
    return {**header, "stage": "hello", "alias": "3", "willing": True}


FAULTS: list[tuple[Any, str]] = [
    (lost, "no reply"),
    (lambda _r: NodeFailure("out of memory"), "error reply"),
    (lambda _r: {}, "MalformedMessageError"),
    (lambda r: {**r, "label": 3}, "MalformedMessageError"),
    (lambda r: {**r, "sequence": True}, "MalformedMessageError"),
    (lambda r: {**r, "epoch": b"short"}, "MalformedMessageError"),
    (lambda r: {**r, "stage": "train"}, "MalformedMessageError"),
    (lambda r: {**r, "version": 2}, "StaleMessageError"),
    (lambda r: {**r, "version": 10**5000}, "MalformedMessageError"),
    (lambda r: {**r, "epoch": bytes(16)}, "StaleMessageError"),
    (lambda r: {**r, "sequence": r["sequence"] + 1}, "StaleMessageError"),
    (lambda r: {**r, "sequence": 2**62}, "StaleMessageError"),
    (hello, "StaleMessageError"),
]
