"""Tests of what a node does for a round: it draws, and as agent it names the best try or groups."""

from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, dubhe, encrypted, joined, registered
from protocol.nodes import (
    COUNTS,
    SCALE,
    SETTINGS,
    Exchanges,
    federation,
    next_request,
    numbers,
)

from dubhe_flwr.core import (
    Codebook,
    overall_registry,
    participation_probability,
)
from dubhe_flwr.protocol import CoordinatorState, Fields, Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION

Nodes = Federation[CoordinatorState]
SPENT = r"^The draws of this epoch are used up\.$"
NONE_COVERS = r"^No sum of a round covers the clients it is said to cover\.$"
PRIVATE_DRAWS = "dubhe_flwr.protocol.node.round.private_draws"


def probability_of(nodes: Nodes, node_id: int) -> float:
    """Return P as the node has it."""
    reading = registered(nodes, node_id).reading
    assert reading is not None
    return reading.probability


class TestParticipate:
    """A node draws by its own probability, from a sum that it read."""

    @pytest.mark.parametrize("tries", [1, 2, 40])
    def test_more_volunteer_where_groups_are_cut(self, tries: int) -> None:
        """By eq. 6 for as many volunteers as H tries have, at most half of all clients."""
        counts = np.tile(COUNTS, (4, 1))
        options = {"determination": "grouped", "max_registered": 40, "max_draws_per_epoch": 400}
        nodes = dubhe(counts, **SETTINGS | options | {"tries": tries})
        nodes.play(1)
        overall, slots = overall_registry(counts, Codebook((1, 2, 4)), {1: 0.6, 2: 0.3})
        expected = participation_probability(overall, {1: 4, 2: 8, 40: 18}[tries])[slots]
        found = [probability_of(nodes, node_id) for node_id in nodes.ids]
        np.testing.assert_array_equal(found, expected)

    def test_a_draw_at_the_probability_is_a_no(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Draws are from 0 up to but not 1, so a node takes part if one lies below P."""
        nodes = federation(policy={"simulated": False})
        nodes.play(1)
        node_id, request = next_request(nodes, Stage.PARTICIPATE, 2)
        own = probability_of(nodes, node_id)
        draws = np.array([own, np.nextafter(own, 0), np.nextafter(own, 1)])
        monkeypatch.setattr(PRIVATE_DRAWS, lambda _number: draws)
        reply = nodes.handle(node_id, {**request, "num-tries": 3})
        assert reply["decisions"] == bytes([0b01000000])


class TestDetermine:
    """An agent decrypts few sums, each of them over enough clients."""

    def with_sums(self, nodes: Nodes, node_id: int, request: Fields, sums: Any) -> Fields:
        """Return the request with other sums of four clients, one a row."""
        own = joined(nodes, node_id)
        vectors = b"".join(encrypted(own, DISTRIBUTION, row) for row in sums)
        return {**request, "sums": vectors} | numbers([len(sums)], [4] * len(sums))

    EVEN, SKEWED = (SCALE,) * 5, (4 * SCALE, 0, 0, 0, SCALE)
    MIDDLE = (2 * SCALE, SCALE, SCALE, 0, SCALE)

    @pytest.mark.parametrize(("local_skew", "best"), [(0.0, 0), (0.05, 1)])
    def test_the_rule_says_what_local_skew_costs(self, local_skew: float, best: int) -> None:
        """A little less even is better if the clients are balanced in themselves."""
        nodes = federation(rule=Exchanges(local_skew=local_skew))
        node_id, request = next_request(nodes, Stage.DETERMINE)
        one_sided, balanced = [SCALE] * 4 + [4 * SCALE], [SCALE + 1000, SCALE, SCALE, SCALE - 1000]
        altered = self.with_sums(nodes, node_id, request, [one_sided, [*balanced, SCALE]])
        assert nodes.handle(node_id, altered)["chosen"] == np.array([best], dtype=">i8").tobytes()
