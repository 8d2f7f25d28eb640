"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import decrypted, joined
from protocol.server import COUNTS, PLAIN, SETTINGS, altered, failed, federation, lost

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.protocol.wire.messages import ParticipateRequest
from dubhe_lab.data.measures import overall_registry


@pytest.mark.parametrize("settings", [{}, PLAIN], ids=str)
def test_the_sum_is_the_overall_registry(settings: dict[str, Any]) -> None:
    """It covers the nodes that registered, which get it when they draw."""
    nodes = federation(**settings)
    with altered(nodes, "register", lost, nodes.ids[:2]):
        batch = nodes.until("participate")
    request = next(iter(batch.requests.values()))
    assert isinstance(request, ParticipateRequest)
    assert (request.num_clients, request.exchange) == (10, 0)
    found = decrypted(joined(nodes, nodes.ids[5]), "registration", request.sums)
    expected, _ = overall_registry(COUNTS[2:], Codebook((1, 2, 4)), SETTINGS["thresholds"])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("spoil", "times"), [(lost, 1), (failed, 3)])
def test_silence_does_not_mean_that_a_key_did_not_open(spoil: Any, times: int) -> None:
    """Another key does not help a silent node."""
    nodes = federation()
    with altered(nodes, "register", spoil, nodes.ids[:3]):
        assert nodes.play(1).num_registered == 9
    assert nodes.stages().count("keygen") == times
