"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

from typing import Any

import pytest
from protocol.server import PLAIN, alter, altered, failed, federation, lost, report_of


@pytest.mark.parametrize(("spoil", "times"), [(lost, 1), (failed, 3)])
def test_silence_does_not_mean_that_a_key_did_not_open(spoil: Any, times: int) -> None:
    """Another key does not help a silent node."""
    nodes = federation()
    with altered(nodes, "register", spoil, nodes.ids[:3]):
        assert nodes.play(1).num_registered == 9
    assert nodes.stages().count("keygen") == times


def test_numbers_that_cannot_be_in_the_clear_stay_out_of_the_sum() -> None:
    """They are dropped as invalid ciphertexts are, and nobody refuses the sum of the rest."""
    nodes = federation(**PLAIN)
    spoil = lambda reply: {**reply, "registration": b"\xff" * len(reply["registration"])}  # noqa: E731
    alter(nodes, "register", spoil, nodes.ids[:2])
    plan = nodes.play(1)
    assert report_of(plan, "register").dropped == {"invalid ciphertext": 2}
    assert (plan.num_registered, nodes.errors) == (10, [])
