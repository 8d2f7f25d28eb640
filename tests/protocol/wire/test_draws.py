"""Tests of the bits of a draw."""

import numpy as np
import pytest

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.wire.draws import read_draws, sizes_of, write_draws
from dubhe_flwr.protocol.wire.messages import ParticipateRequest


def request(num_rounds: int, num_tries: int) -> ParticipateRequest:
    """Return a request for these rounds and tries."""
    return ParticipateRequest(b"", 9, 0, 1, num_rounds, num_tries)


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
@pytest.mark.parametrize(("num_rounds", "num_tries"), [(1, 1), (7, 1), (8, 1), (9, 2), (3, 20)])
def test_draws_survive_a_round_trip(num_nodes: int, num_rounds: int, num_tries: int) -> None:
    """Bits come back node by node, for full and partial bytes, and for no nodes."""
    rng = generator(num_rounds, "bits")
    decisions = rng.random((num_nodes, num_rounds, num_tries)) < 0.5
    unwilling = rng.random((num_nodes, num_rounds)) < 0.5
    asked = request(num_rounds, num_tries)
    replies = [write_draws(*row) for row in zip(decisions, unwilling, strict=True)]
    assert {(len(r.decisions), len(r.unwilling)) for r in replies} <= {sizes_of(asked)}
    found = read_draws(replies, asked)
    np.testing.assert_array_equal(found.decisions, decisions, strict=True)
    np.testing.assert_array_equal(found.unwilling, unwilling, strict=True)
