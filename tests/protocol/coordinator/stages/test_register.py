"""Tests of the stage `register`: what the nodes encrypt is added up."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from protocol.federation import decrypted, dubhe, epoch_of, joined, skewed_counts
from protocol.server import COUNTS, PLAIN, SETTINGS, altered, epochs_of, failed, federation, lost

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.registration import overall_registry
from dubhe_flwr.protocol.wire.messages import ParticipateRequest


@pytest.mark.parametrize("settings", [{}, PLAIN], ids=str)
def test_the_sum_is_the_overall_registry(settings: dict[str, Any]) -> None:
    """Of those that registered, and it is what they are given when they draw."""
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
def test_only_an_error_says_that_a_key_did_not_open(spoil: Any, times: int) -> None:
    """Another key helps no node that is silent."""
    nodes = federation()
    with altered(nodes, "register", spoil, nodes.ids[:3]):
        assert nodes.play(1).num_registered == 9
    assert nodes.stages().count("keygen") == times


@pytest.mark.parametrize("stage", ["join", "register", "settle"])
def test_a_tenth_is_left_out_once_an_epoch_is_of_others(stage: str) -> None:
    """Of forty nodes one is lost and comes back: no two sums of registrations differ by it only."""
    nodes = dubhe(skewed_counts(40), num_participants=4, registration_interval=1, **PLAIN)
    epochs = []
    for server_round in range(1, 7):
        with altered(nodes, stage, lost if server_round == 3 else dict, nodes.ids[7:8]):
            nodes.play(server_round)
        epochs.append(frozenset(epoch_of(nodes).aliases))
    assert list(map(len, epochs)) == [40, 40, 39 if stage == "settle" else 36, 36, 36, 36]
    registered = [epoch for epoch in epochs if len(epoch) != 39]  # 40 registered in that one
    differ = [len(one ^ other) for one, other in combinations(registered, 2)]
    assert not {1, 2}.intersection(differ)


def test_a_registration_counts_that_came_to_nothing() -> None:
    """All lose the sum of forty nodes after they have read it: the next one is not of 39."""
    nodes = dubhe(skewed_counts(40), num_participants=4, on_failure="random", **PLAIN)
    with altered(nodes, "settle", lost):
        assert nodes.play(1).fallback
    with altered(nodes, "register", lost, nodes.ids[7:8]):
        assert nodes.play(2).num_registered == 36


@pytest.mark.parametrize(("wanted", "kept"), [(4, 36), (38, 38)])
def test_who_is_left_out_by_lot_brings_no_new_epoch(wanted: int, kept: int) -> None:
    """Of 39 nodes 36 count, or K; that is no reason to register anew within the interval."""
    options = {"num_participants": wanted, "max_registered": 40, "registration_interval": 10}
    nodes = federation(40, **options, **PLAIN)
    plans = [nodes.play(r, nodes.ids[r > 10 :]) for r in range(1, 21)]
    assert [plan.num_registered for plan in plans] == [40] * 10 + [kept] * 10
    assert len(set(epochs_of(plans))) == 2
