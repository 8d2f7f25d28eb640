"""Tests of what the server knows of an epoch."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import dubhe, epoch_of, skewed_counts

from dubhe_flwr.protocol.epoch import Epoch

SETTINGS: dict[str, Any] = {
    "num_participants": 3,
    "reference_set": (1, 4),
    "thresholds": {1: 0.6},
    "tries": 1,
}


@pytest.fixture(scope="module")
def epoch() -> Epoch:
    """Return an epoch of five clients."""
    nodes = dubhe(skewed_counts(5), **SETTINGS)
    nodes.play(1)
    return epoch_of(nodes)


def test_registered_nodes_are_in_the_order_of_their_aliases(epoch: Epoch) -> None:
    """Node ids are random; the order by alias is not."""
    assert [epoch.aliases[node_id] for node_id in epoch.registered] == list("01234")
    assert list(epoch.registered) != sorted(epoch.registered)


@pytest.mark.parametrize(
    ("num_clients", "max_sums", "expected"),
    [(1, 500, 0), (2, 500, 0), (3, 500, 1), (4, 500, 1), (5, 500, 2), (9, 500, 4), (9, 3, 3)],
)
def test_an_agent_decrypts_fewer_sums_than_half_the_clients(
    epoch: Epoch, num_clients: int, max_sums: int, expected: int
) -> None:
    """Whatever is announced: as many sums as clients would be a system of equations."""
    parameters = type(epoch.parameters)(replace(epoch.parameters.announced, max_sums=max_sums))
    aliases = {node_id: str(node_id) for node_id in range(num_clients)}
    changed = replace(epoch, aliases=aliases, parameters=parameters)
    assert changed.sums_per_agent == expected
