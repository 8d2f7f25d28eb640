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
    refuses,
    set_policy,
)

from dubhe_flwr.core import (
    Codebook,
    overall_registry,
    participation_probability,
    seeded_draws,
)
from dubhe_flwr.errors import RefusedError
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

    @pytest.mark.parametrize("simulation", ["plain", "encrypted"])
    def test_decisions_follow_the_probability(self, simulation: str) -> None:
        """Each bit tells whether the seeded draw is below eq. 6's probability."""
        nodes = federation(rounds_per_draw=3, simulation=simulation)
        nodes.play(1)
        overall, slots = overall_registry(COUNTS, Codebook((1, 2, 4)), {1: 0.6, 2: 0.3})
        probability = participation_probability(overall, 4)[slots]
        replies: Any = {e.node_id: e.reply for e in nodes.exchanges if e.stage == Stage.PARTICIPATE}
        for row, node_id in enumerate(nodes.ids):
            assert probability_of(nodes, node_id) == probability[row]
            draws = np.array([seeded_draws(7, str(row), r, 1, 4) for r in (1, 2, 3)])
            assert replies[node_id]["decisions"] == np.packbits(draws < probability[row]).tobytes()
            assert replies[node_id]["unwilling"] == b"\x00"
            assert registered(nodes, node_id).num_draws == 12

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

    def test_unwilling_rounds_are_marked(self) -> None:
        """One bit a round tells in which rounds the node will not train."""
        nodes = federation(policy={"willing": lambda r: r not in {2, 5}}, rounds_per_draw=9)
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        assert nodes.handle(node_id, request)["unwilling"] == bytes([0b01001000, 0])

    @pytest.mark.parametrize(
        ("num_rounds", "expected"), [(1, [0b01000000]), (7, [1]), (8, [0, 0b10000000])]
    )
    def test_moved_labels_are_marked(self, num_rounds: int, expected: list[int]) -> None:
        """One bit after those of the rounds; the size is the same without."""
        nodes = federation(policy={"max_label_shift": 0.1})
        node_id, request = next_request(nodes, Stage.PARTICIPATE)
        request |= {"num-rounds": num_rounds, "num-tries": 1}
        kept = nodes.memories[node_id]
        assert nodes.handle(node_id, request)["unwilling"] == bytes(len(expected))
        nodes.memories[node_id] = kept
        set_policy(nodes, node_id, label_counts=lambda: COUNTS[5][::-1])
        assert nodes.handle(node_id, request)["unwilling"] == bytes(expected)


class TestDetermine:
    """An agent decrypts few sums, each of them over enough clients."""

    def with_sums(self, nodes: Nodes, node_id: int, request: Fields, sums: Any) -> Fields:
        """Return the request with other sums of four clients, one a row."""
        own = joined(nodes, node_id)
        vectors = b"".join(encrypted(own, DISTRIBUTION, row) for row in sums)
        return {**request, "sums": vectors} | numbers([len(sums)], [4] * len(sums))

    EVEN, SKEWED = (SCALE,) * 5, (4 * SCALE, 0, 0, 0, SCALE)
    MIDDLE = (2 * SCALE, SCALE, SCALE, 0, SCALE)

    @pytest.mark.parametrize(
        ("rows", "num_sums", "chosen"),
        [
            ([SKEWED, EVEN, EVEN, MIDDLE], [2, 2], [1, 0]),
            ([SKEWED, SKEWED, EVEN, EVEN], [1, 2, 1], [0, 1, 0]),
            ([MIDDLE, EVEN, SKEWED, EVEN], [4], [1]),
        ],
    )
    def test_the_best_of_each_round(self, rows: Any, num_sums: Any, chosen: Any) -> None:
        """One index a round, the first of equal ones, and nothing else travels."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.DETERMINE)
        altered = self.with_sums(nodes, node_id, request, rows) | numbers(num_sums, [4] * 4)
        reply = nodes.handle(node_id, altered)
        assert reply["chosen"] == np.array(chosen, dtype=">i8").tobytes()
        assert set(reply) == {"epoch", "stage", "sequence", "version", "chosen"}
        assert registered(nodes, node_id).num_sums == 4

    @pytest.mark.parametrize(
        "row",
        [
            (SCALE, SCALE, SCALE, SCALE - 1, SCALE),
            (SCALE, SCALE, SCALE, SCALE - 1, SCALE + 1),
            (SCALE, SCALE, SCALE, SCALE + 1, SCALE),
            (0, 0, 0, 0, 0),
            (4 * SCALE + 1, 0, 0, 0, SCALE),
        ],
    )
    def test_a_wrong_total_is_passed_over(self, row: Any) -> None:
        """A client with a wrong p_l costs the tries it is in; those that add up are compared."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.DETERMINE)
        altered = self.with_sums(nodes, node_id, request, [self.SKEWED, row, self.MIDDLE, row])
        kept = nodes.memories[node_id]
        assert nodes.handle(node_id, altered)["chosen"] == np.array([2], dtype=">i8").tobytes()
        assert registered(nodes, node_id).num_sums == 4
        # In the second of two rounds none is left.
        nodes.memories[node_id] = kept
        altered = self.with_sums(nodes, node_id, request, [self.SKEWED, self.MIDDLE, row, row])
        refuses(nodes, node_id, altered | numbers([2, 2], [4] * 4), RefusedError, NONE_COVERS)

    @pytest.mark.parametrize(("local_skew", "best"), [(0.0, 0), (0.05, 1)])
    def test_the_rule_says_what_local_skew_costs(self, local_skew: float, best: int) -> None:
        """A little less even is better if the clients are balanced in themselves."""
        nodes = federation(rule=Exchanges(local_skew=local_skew))
        node_id, request = next_request(nodes, Stage.DETERMINE)
        one_sided, balanced = [SCALE] * 4 + [4 * SCALE], [SCALE + 1000, SCALE, SCALE, SCALE - 1000]
        altered = self.with_sums(nodes, node_id, request, [one_sided, [*balanced, SCALE]])
        assert nodes.handle(node_id, altered)["chosen"] == np.array([best], dtype=">i8").tobytes()


class TestDetermineGroups:
    """An agent names the groups that are best together."""

    def asked(self, rows: Any, num_sums: list[int], sizes: Any = None) -> tuple[Nodes, int, Fields]:
        """Return 36 nodes of which seven are chosen in two groups, an agent, and its request."""
        options = {"num_participants": 7, "determination": "grouped", "group_size": 3}
        settings = SETTINGS | options | {"max_registered": 40}
        nodes = dubhe(np.tile(COUNTS, (4, 1)), **settings)
        node_id, request = next_request(nodes, Stage.DETERMINE)
        own = joined(nodes, node_id)
        vectors = b"".join(encrypted(own, DISTRIBUTION, row) for row in rows)
        covered = [sum(row[:-1]) // SCALE for row in rows] if sizes is None else sizes
        return nodes, node_id, {**request, "sums": vectors} | numbers(num_sums, covered)

    @staticmethod
    def row(*clients: int) -> list[int]:
        """Return the sum over clients of one class each."""
        return [*(SCALE * number for number in clients), SCALE * sum(clients)]

    def test_the_best_groups_of_each_round(self) -> None:
        """Two of three and two of four groups of the right sizes, round by round."""
        first = [(3, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)]
        second = [(0, 4, 0, 0), (3, 0, 0, 0), (1, 0, 1, 1), (0, 2, 0, 2)]
        nodes, node_id, request = self.asked([self.row(*r) for r in first + second], [3, 4])
        reply = nodes.handle(node_id, request)
        assert reply["chosen"] == np.array([1, 2, 2, 3], dtype=">i8").tobytes()
        assert registered(nodes, node_id).num_sums == 7

    def test_a_group_with_a_wrong_total_is_passed_over(self) -> None:
        """The others make up K, if there are enough of each size."""
        rows = [self.row(2, 1, 0, 0), self.row(3, 0, 0, 0), self.row(0, 4, 0, 0)]
        nodes, node_id, request = self.asked(rows, [3], [4, 3, 4])
        kept = nodes.memories[node_id]
        chosen = nodes.handle(node_id, request)["chosen"]
        assert chosen == np.array([1, 2], dtype=">i8").tobytes()
        for sizes, sentence in (([4, 4, 4], "There are fewer groups"), ([4, 3, 5], "of as many")):
            nodes.memories[node_id] = kept
            altered = request | numbers([3], sizes)
            refuses(nodes, node_id, altered, RefusedError, sentence)
