"""Tests of prices through real sessions: nodes fit the same prices to the same sums."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    dubhe,
    encrypted,
    epoch_of,
    joined,
    reading_of,
    registered,
    skewed_counts,
)
from protocol.server import with_liars

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.node.memory import Reading
from dubhe_flwr.rules import Frame, Own, Population, Prices

Nodes = Federation[CoordinatorState]
TARGET = (0.4, 0.3, 0.2, 0.1)


def federation(num_clients: int = 60, **settings: Any) -> Nodes:
    """Return nodes whose server takes prices; they are simulated without encryption."""
    usual: dict[str, Any] = {
        "rule": Prices(),
        "num_participants": 10,
        "simulation": "plain",
        "max_registered": 256,
    }
    return dubhe(skewed_counts(num_clients), **usual | settings)


HARD: dict[str, Any] = {"rule": Prices(0.1, 1.0), "registration_interval": 1}
"""Prices that are settled after several exchanges in a first epoch."""


def test_nodes_without_a_memory_find_the_same_prices() -> None:
    """In a later epoch newcomers and those that were restarted take what others remember."""
    nodes = federation(**HARD)
    nodes.play(1)
    first = epoch_of(nodes).last_sum.exchange
    for node_id in nodes.ids[:25]:
        del nodes.memories[node_id]
    nodes.play(2)
    assert nodes.errors == []
    assert epoch_of(nodes).last_sum.exchange < first
    left = {reading.left for n in nodes.ids if (reading := registered(nodes, n).reading)}
    assert len(left) == 1
    assert len(left.pop()) == 1 + 4


def test_what_is_remembered_outlasts_an_epoch_without_prices() -> None:
    """A node that could not settle keeps what it had; another rule's memory is not its own."""
    nodes = federation(**HARD)
    nodes.play(1)
    place = joined(nodes, nodes.ids[0])
    assert place.left_to(place.announced) == reading_of(nodes, nodes.ids[0]).left
    assert place.left_to(replace(place.announced, rule="paper")) == ()
    refused = replace(
        place,
        remembered=(1.0,),
        registered=replace(registered(nodes, nodes.ids[0]), reading=Reading(b"", 60, 0.5)),
    )
    assert refused.left_to(place.announced) == (1.0,)
    assert replace(refused, registered=None).left_to(place.announced) == (1.0,)


@pytest.mark.parametrize("num_clients", [9, 12, 13])
def test_too_few_nodes_volunteer_alike(num_clients: int) -> None:
    """Below half the unknowns nobody decrypts a sum, and so nobody checks one either."""
    nodes = federation(num_clients, simulation="encrypted", num_participants=4)
    exchanges: list[Any] = []

    def garble(stage: str, _node_id: int, request: Any) -> Any:
        if stage == Stage.PARTICIPATE:
            exchanges.append(request["exchange"])
            return {**request, "sums": bytes(len(request["sums"]))}
        return request

    nodes.alter_request = garble
    assert [plan.notes for plan in nodes.rounds(1, 2)] == [(), ()]
    assert (Stage.SETTLE in nodes.stages(), set(exchanges), nodes.errors) == (False, {0}, [])
    found = {reading_of(nodes, node_id).probability for node_id in nodes.ids}
    assert found == {4 / num_clients}


@pytest.mark.parametrize(
    ("num_clients", "expected"), [(13, 0), (14, 1), (26, 1), (27, 2), (120, 9), (5000, 9)]
)
def test_a_node_reads_fewer_numbers_than_half_the_unknowns(num_clients: int, expected: int) -> None:
    """``N (C - 1) / 2`` of them, and the sums of eight exchanges at most."""
    rule, frame = Prices(), Frame(4, 256)
    opening, later = rule.registration_slots(frame), rule.settlement_slots(frame)
    assert (opening.number, later.number) == (20, 20)
    assert rule.num_sums(frame, num_clients) == expected
    told = opening.number * min(1, expected) + later.number * max(0, expected - 1)
    assert told <= num_clients * 3 / 2


class TestLies:
    """Sums that no nodes can have told are refused by all of them, in one sentence."""

    WEIGHT = 2 + 1 + 3
    """Slot of ``P (1 - P)`` at the opening, behind two of softplus, P and three moments."""

    @staticmethod
    def check(nodes: Nodes) -> None:
        """Play a round; its first epoch is refused, and the next one asks half."""
        plan = nodes.play(1)
        assert plan.notes == (
            "60 of 60 nodes refused at settle; the epoch ends and all register anew.",
            "Epochs refused in a row: 1; the next one is of 30 of 60 nodes, drawn by lot.",
        )
        assert plan.num_registered == 30
        assert len(nodes.errors) == 60
        assert {type(error) for error in nodes.errors} == {RefusedError}
        assert {str(error) for error in nodes.errors} == {"The sum is not what it is said to be."}

    def test_of_the_registration(self) -> None:
        """A node that tells a chance without a probability is found by all."""
        nodes = federation(simulation="encrypted")

        def alone(values: NDArray[np.int64]) -> NDArray[np.int64]:
            values[self.WEIGHT] = (2**26 - 1) // 256
            return values

        with_liars(nodes, [nodes.ids[7]], "registration", alone, times=1)
        self.check(nodes)

    @pytest.mark.parametrize("share", [0.8, 2.0])
    def test_of_a_later_exchange(self, share: float) -> None:
        """Numbers after the opening are checked as well, and how large they are."""
        nodes = federation(simulation="encrypted")
        lies: list[int] = []

        def alter(stage: str, node_id: int, reply: Any) -> Any:
            if stage != Stage.SETTLE or node_id != nodes.ids[7] or lies:
                return reply
            lies.append(1)
            node = joined(nodes, node_id)
            field = node.terms.layout.field("settlement")
            values = np.zeros(field.number, np.int64)
            values[self.WEIGHT + 4] = int(share * 60 * field.largest)
            return {**reply, "contribution": encrypted(node, "settlement", values)}

        nodes.alter_reply = alter
        self.check(nodes)
        assert nodes.stages()[:5] == ["join", "keygen", "register", "settle", "join"]


COUNTS = skewed_counts(30)
FRAME = Frame(4, 100)
POPULATION = Population(FRAME, 30, 5, 5)


def own(row: int) -> Own:
    """Return what a node knows of itself."""
    return Own(COUNTS[row], rng=generator(0, "rounding", row))


def summed(rule: Prices) -> NDArray[np.int64]:
    """Return the sum of the registrations."""
    rows = [rule.contribution(own(row), FRAME) for row in range(30)]
    return np.asarray(np.sum(rows, axis=0))


class TestSettle:
    """From sums and the memory of the sum before to a probability."""

    @pytest.mark.parametrize("damage", [(0.0,), (1.0,) * 40])
    def test_another_memory_is_refused(self, damage: tuple[float, ...]) -> None:
        """It is of as many numbers as the classes have prices."""
        with pytest.raises(RefusedError, match="not those of prices"):
            Prices().settle(own(0), POPULATION, damage, summed(Prices()))

    @pytest.mark.parametrize("row", [0, 17])
    @pytest.mark.parametrize("spoil", [lambda sums: sums[:-1], lambda sums: -sums, np.zeros_like])
    def test_sums_of_nobody_are_refused(self, row: int, spoil: Any) -> None:
        """Whoever reads them, and without a word of the node's own labels."""
        with pytest.raises(RefusedError):
            Prices().settle(own(row), POPULATION, None, spoil(summed(Prices())))


class TestSettings:
    """What the operator sets is what nodes read."""

    def test_what_a_log_says(self) -> None:
        """The settings; prices are nobody's business."""
        assert Prices(0.1, 1.0, TARGET).describe((0.5,)) == (
            "prices: coverage 0.1, local skew 1, with a target"
        )

    def test_a_target_fixes_the_classes(self) -> None:
        """Its length is their number."""
        assert (Prices().num_classes, Prices(target=TARGET).num_classes) == (None, 4)

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"coverage": "0.3"}, "coverage='0.3' must be a number"),
            ({"local_skew": None}, "local_skew=None must be a number"),
            ({"coverage": 0}, r"coverage=0.0 must be above 0"),
            ({"coverage": float("nan")}, "coverage=nan must be above 0"),
            ({"coverage": 1001}, "neither above 1000"),
            ({"local_skew": -0.1}, "local_skew=-0.1 from 0"),
            ({"target": [1.0]}, "a share for each class"),
            ({"target": [1.0, 0.0]}, "a share for each class"),
            ({"target": [1.5, -0.5]}, "a share for each class"),
            ({"target": [[0.5, 0.5]]}, "a share for each class"),
            ({"target": [float("nan"), 0.5]}, "a share for each class"),
            ({"target": [0.5, 0.4]}, "shares sum to 1"),
            ({"target": ["a", "b"]}, "must have a share"),
        ],
    )
    def test_what_cannot_work_is_refused(self, settings: dict[str, Any], match: str) -> None:
        """With the value and what it must be."""
        with pytest.raises(SettingsError, match=match):
            Prices(**settings)

    def test_one_class_has_no_prices(self) -> None:
        """There is nothing to balance."""
        with pytest.raises(SettingsError, match="num_classes=1 must be at least 2"):
            Prices().registration_slots(Frame(1, 100))
