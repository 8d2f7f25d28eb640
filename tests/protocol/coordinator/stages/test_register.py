"""Tests of the stage `register`: what the nodes encrypt is added up."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import epoch_of, joined, secret_key
from protocol.server import COUNTS, PLAIN, SETTINGS, Nodes, altered, failed, federation, lost

from dubhe_flwr.core import Codebook, overall_registry
from dubhe_flwr.protocol.wire.messages import ParticipateRequest


def unfit_vectors(nodes: Nodes) -> list[bytes]:
    """Return what is not a ciphertext, once all have the key."""
    key = secret_key(joined(nodes, nodes.ids[0]))
    n, p = key.public_key.n, int.from_bytes(key.to_bytes(), "big")
    return [number.to_bytes(128, "big") for number in (0, n, n * n, 2**1024 - 1, p, 5 * p)]


@pytest.mark.parametrize("field", ["registration", "distribution"])
def test_what_is_not_a_ciphertext_is_left_out(field: str) -> None:
    """Out of range or not a unit: the others register all the same."""
    nodes = federation(max_unregistered=0.5)
    batch = nodes.until("register")
    replies: Any = nodes.deliver(batch)
    unfit = unfit_vectors(nodes)
    for node_id, vector in zip(nodes.ids, unfit, strict=False):
        replies[node_id] = {**replies[node_id], field: vector}
    nodes.step(replies)
    report = nodes.state.round.reports[-1]
    assert (report.accepted, report.dropped) == (6, {"invalid ciphertext": 6})
    epoch = epoch_of(nodes)
    assert epoch.registered == tuple(nodes.ids[6:])
    assert list(epoch.distributions) == [replies[n]["distribution"] for n in nodes.ids[6:]]
    assert (epoch.num_registered, epoch.last_sum.num_clients, epoch.last_sum.exchange) == (6, 6, 0)


@pytest.mark.parametrize("settings", [{}, PLAIN], ids=str)
def test_the_sum_is_the_overall_registry(settings: dict[str, Any]) -> None:
    """Of those that registered, and it is what they are given when they draw."""
    nodes = federation(**settings)
    with altered(nodes, "register", lost, nodes.ids[:2]):
        batch = nodes.until("participate")
    request = next(iter(batch.requests.values()))
    assert isinstance(request, ParticipateRequest)
    assert (request.num_clients, request.exchange) == (10, 0)
    node = joined(nodes, nodes.ids[5])
    assert node.registered is not None
    found = node.cipher(node.registered).decrypt("registration", request.sums, 10)
    expected, _ = overall_registry(COUNTS[2:], Codebook((1, 2, 4)), SETTINGS["thresholds"])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("spoil", "times"), [(lost, 1), (failed, 3)])
def test_only_an_error_says_that_a_key_did_not_open(spoil: Any, times: int) -> None:
    """Another key helps no node that is silent."""
    nodes = federation()
    with altered(nodes, "register", spoil, nodes.ids[:3]):
        assert nodes.play(1).num_registered == 9
    assert nodes.stages().count("keygen") == times
