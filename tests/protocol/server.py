"""Twelve nodes, their server and ways to spoil a reply, for the tests of the server."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from protocol.federation import Federation, dubhe, encrypted, joined, registered, skewed_counts

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol import NodeFailure, Plan, StageReport
from dubhe_flwr.protocol.coordinator.context import Awaiting, CoordinatorState
from dubhe_flwr.protocol.vaults import SumName

AwaitingT = TypeVar("AwaitingT", bound=Awaiting)
Nodes = Federation[CoordinatorState]

NUM_CLIENTS = 12
SETTINGS: dict[str, Any] = {
    "num_participants": 4, "reference_set": (1, 2, 4), "thresholds": {1: 0.6, 2: 0.3}, "tries": 3,
    "max_registered": 30,
}  # fmt: skip
SEARCH: dict[str, Any] = {"thresholds": "search"}
PLAIN: dict[str, Any] = {"simulation": "plain"}
REGISTRATION = ["join", "appoint", "register"]
"""The stages of a registration, if an agent makes the key."""


def federation(num_clients: int = NUM_CLIENTS, **overrides: Any) -> Nodes:
    """Return nodes and a server."""
    return dubhe(skewed_counts(num_clients), **SETTINGS | overrides)


def report_of(plan: Plan, stage: str, position: int = 0) -> StageReport:
    """Return the report of a stage."""
    return [report for report in plan.stages if report.stage == stage][position]


def stages_of(plan: Plan) -> list[str]:
    """Return the stages of a round, in order."""
    return [report.stage for report in plan.stages]


def asked(nodes: Nodes, stage: str) -> list[int]:
    """Return the nodes that were asked at a stage, in order."""
    return [exchange.node_id for exchange in nodes.exchanges if exchange.stage == stage]


def agents_in_turn(nodes: Nodes, server_round: int = 1, purpose: str = "agents") -> list[int]:
    """Return the nodes in the order in which they are to determine a round of the first epoch."""
    order = generator(7, purpose, 1).permutation(len(nodes.ids))
    return [nodes.ids[row] for row in np.roll(order, -(server_round - 1))]


def awaiting(nodes: Nodes, kind: type[AwaitingT]) -> AwaitingT:
    """Return the stage that awaits replies."""
    assert isinstance(nodes.state.stage, kind)
    return nodes.state.stage


def alter(nodes: Nodes, stage: str, spoil: Callable[[Any], Any], ids: Collection[int] = ()) -> None:
    """Spoil the replies of some nodes, or of all, at a stage."""
    nodes.alter_reply = lambda s, node_id, reply: (
        spoil(reply) if s == stage and node_id in (ids or nodes.ids) else reply
    )


@contextmanager
def altered(
    nodes: Nodes, stage: str, spoil: Callable[[Any], Any], ids: Collection[int] = ()
) -> Iterator[None]:
    """Spoil the replies of some nodes, or of all, at a stage for a while."""
    before = nodes.alter_reply
    alter(nodes, stage, spoil, ids)
    try:
        yield
    finally:
        nodes.alter_reply = before


def wills(nodes: Nodes, rows: Collection[int], willing: Callable[[int], bool]) -> set[int]:
    """Tell some nodes in which rounds they are willing, and return their ids."""
    ids = {nodes.ids[row] for row in rows}
    for node_id in ids:
        nodes.policies[node_id] = replace(nodes.policies[node_id], willing=willing)
    return ids


def with_liars(
    nodes: Nodes, liars: Collection[int], field: str, spoil: Any, times: int = 999
) -> Any:
    """Let some nodes register other numbers, so often; return the rounds in which they did."""
    lies: list[int] = []

    def alter(stage: str, node_id: int, reply: Any) -> Any:
        if stage != "register" or node_id not in liars or len(lies) >= times:
            return reply
        lies.append(nodes.state.run.server_round)
        node = joined(nodes, node_id)
        vault, keys = node.terms.vault, registered(nodes, node_id).keys
        values: NDArray[np.int64] = np.zeros(vault.fields[field].number, np.int64)
        if node.announced.in_the_clear:  # where no more than honest numbers are told
            return {**reply, field: vault.hide(keys, SumName(field), spoil(values))}
        return {**reply, field: encrypted(node, field, spoil(values))}

    nodes.alter_reply = alter
    return lies


def everywhere(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a registration in all categories at once."""
    return values + 1


def lost(_reply: Any) -> None:
    """Lose a reply."""


def without(field: str) -> Callable[[Any], Any]:
    """Return a way to leave a field out of a reply."""
    return lambda reply: {name: value for name, value in reply.items() if name != field}


def failed(_reply: Any) -> NodeFailure:
    """Put an error in the place of a reply."""
    return NodeFailure("out of memory")


FAULTS: list[tuple[Any, str]] = [
    (lost, "no reply"),
    (failed, "error reply"),
    (lambda r: {**r, "label": 3}, "MalformedMessageError"),
    (lambda r: {**r, "sequence": r["sequence"] + 1}, "StaleMessageError"),
]
"""Ways to spoil a reply, and what the report calls each; the vectors have more."""
