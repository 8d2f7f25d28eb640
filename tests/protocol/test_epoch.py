"""Tests of what the server knows of an epoch."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import dubhe, epoch_of, skewed_counts

from dubhe_flwr.he import generate_secret_key
from dubhe_flwr.protocol.epoch import Epoch, invalid_vectors

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


@pytest.mark.parametrize(
    ("selection", "groups", "sums"),
    [
        ((100, 20, 0, 5), 0, 5),
        ((100, 20, 0, 1), 0, 0),
        ((22, 20, 0, 5), 0, 5),
        ((21, 20, 0, 5), 0, 0),
        ((20, 20, 0, 5), 0, 0),
        ((1000, 20, 4, 10), 50, 50),
        ((1000, 20, 4, 20), 100, 100),
        ((1000, 20, 4, 99), 125, 125),
        ((100, 20, 4, 1), 5, 0),
        ((100, 20, 3, 2), 13, 13),
        ((100, 20, 20, 3), 2, 2),
        ((100, 45, 3, 9), 16, 16),
        ((100, 47, 3, 9), 16, 16),
        ((100, 60, 3, 9), 20, 0),
        ((14, 6, 3, 9), 2, 0),
        ((8, 7, 3, 9), 2, 0),
        ((5, 3, 3, 9), 1, 0),
    ],
)
def test_groups_and_sums_of_a_round(
    epoch: Epoch, selection: tuple[int, int, int, int], groups: int, sums: int
) -> None:
    """As many groups as volunteers make up, and no sum where there is nothing to choose.

    The selection is the number of clients, K, the size of the groups and H.
    """
    num_clients, num_participants, group_size, tries = selection
    announced = replace(
        epoch.parameters.announced,
        num_participants=num_participants,
        group_size=group_size,
        volunteer_tries=tries if group_size else 1,
    )
    aliases = {node_id: str(node_id) for node_id in range(num_clients)}
    changed = replace(epoch, aliases=aliases, parameters=type(epoch.parameters)(announced))
    assert changed.groups_per_round == groups
    assert changed.sums_per_round(1 if group_size else tries) == sums


def test_a_budget_below_the_groups_that_are_wanted_leaves_no_choice(epoch: Epoch) -> None:
    """Five groups of four cannot be chosen from five sums."""
    aliases = {node_id: str(node_id) for node_id in range(1000)}
    for max_sums, sums in ((6, 6), (5, 0), (4, 0), (0, 0)):
        announced = replace(
            epoch.parameters.announced,
            num_participants=20,
            group_size=4,
            volunteer_tries=9,
            max_sums=max_sums,
        )
        changed = replace(epoch, aliases=aliases, parameters=type(epoch.parameters)(announced))
        assert changed.sums_per_round(1) == sums


def test_invalid_vectors_are_found() -> None:
    """Each one that is no ciphertext is named, and nothing where all are or none is there."""
    key = generate_secret_key(512)
    valid = {node_id: key.encrypt([node_id, 1]) for node_id in range(5)}
    assert invalid_vectors(key.public_key, valid, 2) == set()
    assert invalid_vectors(key.public_key, {}, 2) == set()
    spoilt = {3: valid[3][:128] + bytes(128), 1: bytes(256), 4: valid[4][:128]}
    assert invalid_vectors(key.public_key, valid | spoilt, 2) == {1, 3, 4}
