"""Tests of the server's view of an epoch."""

from dataclasses import replace

import pytest
from protocol.federation import epoch_of
from protocol.server import federation

from dubhe_flwr.protocol.coordinator.epoch import Epoch


@pytest.fixture(scope="module")
def epoch() -> Epoch:
    """Return an epoch of twelve clients."""
    nodes = federation(tries=1)
    nodes.play(1)
    return epoch_of(nodes)


def sized(epoch: Epoch, num_clients: int, **announced: object) -> Epoch:
    """Return the epoch with this number of clients and other parameters."""
    aliases = {node_id: str(node_id) for node_id in range(num_clients)}
    told = replace(epoch.announced, **announced)  # type: ignore[arg-type]
    invitation = replace(epoch.invitation, announced=told)
    return replace(epoch, aliases=aliases, num_registered=num_clients, invitation=invitation)


@pytest.mark.parametrize(
    ("selection", "sums"),
    [
        ((100, 20, None, 5), 5), ((100, 20, None, 1), 0), ((22, 20, None, 5), 5),
        ((21, 20, None, 5), 0), ((20, 20, None, 5), 0), ((1000, 20, 4, 10), 50),
        ((1000, 20, 4, 20), 100), ((1000, 20, 4, 99), 150), ((100, 20, 4, 1), 0),
        ((100, 20, 3, 2), 13), ((100, 20, 20, 3), 3), ((100, 47, 3, 9), 20),
        ((100, 60, 3, 9), 0), ((14, 6, 3, 9), 0), ((5, 3, 3, 9), 0),
    ],
)  # fmt: skip
def test_groups_and_sums_of_a_round(
    epoch: Epoch, selection: tuple[int, int, int | None, int], sums: int
) -> None:
    """The numbers follow from N, K, the groups' size and H; there are none without a choice."""
    num_clients, num_participants, group_size, tries = selection
    changed = sized(
        epoch,
        num_clients,
        num_participants=num_participants,
        pool=tries if group_size else 1,
        group_size=group_size,
    )
    assert changed.sums_per_round(1 if group_size else tries) == sums
