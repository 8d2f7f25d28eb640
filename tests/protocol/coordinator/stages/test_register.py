"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

import pytest
from protocol.server import PLAIN, alter, federation, report_of


@pytest.mark.parametrize("byte", [b"\xff", b"\x7f"], ids=["negative", "too large"])
def test_numbers_that_cannot_be_in_the_clear_stay_out_of_the_sum(byte: bytes) -> None:
    """They are dropped as invalid ciphertexts are, and nobody refuses the sum of the rest."""
    nodes = federation(**PLAIN)
    spoil = lambda reply: {**reply, "registration": byte * len(reply["registration"])}  # noqa: E731
    alter(nodes, "register", spoil, nodes.ids[:2])
    plan = nodes.play(1)
    assert report_of(plan, "register").dropped == {"invalid ciphertext": 2}
    assert (plan.num_registered, nodes.errors) == (10, [])
