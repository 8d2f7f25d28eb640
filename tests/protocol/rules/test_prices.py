"""Tests of prices through real sessions: nodes fit the same prices to the same sums."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    dubhe,
    encrypted,
    epoch_of,
    joined,
    registered,
    skewed_counts,
)
from protocol.server import with_liars

from dubhe_flwr.core import generator
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol import CoordinatorState, Plan, Stage
from dubhe_flwr.protocol.node.memory import Reading
from dubhe_flwr.protocol.rules.rule import announced_rule
from dubhe_flwr.rules import Frame, Own, Population, Prices, Settled, Unsettled

Nodes = Federation[CoordinatorState]
TARGET = (0.4, 0.3, 0.2, 0.1)


def federation(num_clients: int = 60, counts: Any = None, **settings: Any) -> Nodes:
    """Return nodes whose server takes prices; they are simulated without encryption."""
    usual: dict[str, Any] = {
        "rule": Prices(),
        "num_participants": 10,
        "simulation": "plain",
        "max_registered": 256,
    }
    return dubhe(skewed_counts(num_clients) if counts is None else counts, **usual | settings)


def unequal(num_clients: int = 200) -> NDArray[np.int64]:
    """Return label counts of clients of which some have many times the samples of others."""
    sizes = generator(1, "sizes").choice([1, 2, 10], num_clients)
    return np.asarray(skewed_counts(num_clients) * sizes[:, None])


def probabilities(nodes: Nodes) -> NDArray[np.float64]:
    """Return with what probability each node volunteers."""
    readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
    return np.array([np.nan if reading is None else reading.probability for reading in readings])


def shares_of(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the label distributions."""
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def distance(weights: Any, shares: NDArray[np.float64], target: Any = 0.25) -> float:
    """Return how far the weighted mean of distributions is from the target, in L1."""
    mean = np.asarray(weights) @ shares / np.sum(weights)
    return float(np.abs(mean - np.broadcast_to(target, mean.shape)).sum())


def play(nodes: Nodes, num_rounds: int) -> list[Plan]:
    """Play some rounds, and check that nothing went wrong in them."""
    plans = [nodes.play(server_round) for server_round in range(1, num_rounds + 1)]
    assert nodes.errors == []
    assert all(plan.notes == () and not plan.fallback for plan in plans)
    return plans


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"determination": "grouped", "tries": 4, "num_participants": 8},
        {"equal_weights": False, "rule": Prices(0.3, 0.5, TARGET)},
    ],
    ids=["tries", "groups", "weights and a target"],
)
def test_encryption_changes_nothing(settings: dict[str, Any]) -> None:
    """The same sets and probabilities, bit for bit, over two epochs."""
    counts = unequal(100)
    usual = {"registration_interval": 2}
    federations = [
        federation(counts=counts, simulation=simulation, **usual | settings)
        for simulation in ("plain", "encrypted")
    ]
    plain, secret = (play(nodes, 3) for nodes in federations)
    assert [plan.participants for plan in plain] == [plan.participants for plan in secret]
    assert [plan.chosen for plan in plain] == [plan.chosen for plan in secret]
    found, expected = map(probabilities, federations)
    np.testing.assert_array_equal(found, expected)
    assert len(set(found.tolist())) > 5


@pytest.mark.parametrize("num_classes", [2, 4, 10])
@pytest.mark.parametrize("seed", range(3))
def test_prices_are_settled_after_a_few_exchanges(num_classes: int, seed: int) -> None:
    """At most eight; then V volunteer on average, and their data is nearly uniform."""
    counts = skewed_counts(200, num_classes, seed)
    nodes = federation(counts=counts)
    play(nodes, 1)
    epoch = epoch_of(nodes)
    assert epoch.last_sum.exchange <= 8
    assert epoch.last_sum.exchange + 1 < epoch.terms.rule.num_sums(epoch.terms.frame, 200)
    found, shares = probabilities(nodes), shares_of(counts)
    assert found.sum() == pytest.approx(10, rel=0.1)
    assert found.min() >= 0.02 * 10 / 200 - 1e-12
    assert len(set(found.tolist())) <= 16
    uniform = 1 / num_classes
    assert distance(found, shares, uniform) < 0.7 * distance(np.ones(200), shares, uniform) + 0.02


def test_every_node_finds_the_same_prices() -> None:
    """From the same sums, whatever its own labels are; the operator learns nothing of them."""
    nodes = federation(simulation="encrypted")
    outcome = nodes.until(Stage.SETTLE)
    memories = []
    for _ in range(2):
        nodes.deliver(outcome)
        readings = [registered(nodes, node_id).reading for node_id in nodes.ids]
        memories += [{None if reading is None else reading.memory for reading in readings}]
        replies: Any = {e.node_id: e.reply for e in nodes.exchanges[-60:]}
        outcome = nodes.step(replies)  # type: ignore[assignment]
    assert [len(found) for found in memories] == [1, 1]
    assert memories[0] != memories[1]
    plan = nodes.play(1)
    assert (plan.finding, plan.rule) == ((), "prices: coverage 0.3, local skew 0")


def num_exchanges(nodes: Nodes, num_rounds: int) -> list[int]:
    """Play some rounds; return how many exchanges settled the epoch of each."""
    told = []
    for server_round in range(1, num_rounds + 1):
        assert not nodes.play(server_round).notes
        told.append(epoch_of(nodes).last_sum.exchange)
    return told


class TestLaterEpochs:
    """They begin with the prices of the last one, for all nodes alike."""

    HARD: ClassVar[dict[str, Any]] = {"rule": Prices(0.1, 1.0), "registration_interval": 1}

    @pytest.mark.parametrize("simulation", ["plain", "encrypted"])
    def test_one_exchange_is_enough(self, simulation: str) -> None:
        """Where a first epoch takes several; the probabilities are the same."""
        nodes = federation(simulation=simulation, **self.HARD)
        first, second, third = num_exchanges(nodes, 3)
        assert first >= 3
        assert second == third == 1
        found = probabilities(nodes)
        anew = federation(simulation=simulation, **self.HARD)
        num_exchanges(anew, 1)
        # To a level of sixteen, or two.
        assert np.abs(np.log(found / probabilities(anew))).max() < 1.5

    def test_nodes_without_a_memory_find_the_same_prices(self) -> None:
        """Newcomers and those that were restarted take what the others remember."""
        nodes = federation(**self.HARD)
        first = num_exchanges(nodes, 1)[0]
        for node_id in nodes.ids[:25]:
            del nodes.memories[node_id]
        nodes.play(2)
        assert nodes.errors == []
        assert epoch_of(nodes).last_sum.exchange < first
        left = {reading.left for n in nodes.ids if (reading := registered(nodes, n).reading)}
        assert len(left) == 1
        assert len(left.pop()) == 1 + 4

    def test_where_most_have_forgotten_prices_begin_anew(self) -> None:
        """Fewer than a quarter of the nodes are not heeded."""
        nodes = federation(**self.HARD)
        num_exchanges(nodes, 1)
        for node_id in nodes.ids[:46]:
            del nodes.memories[node_id]
        nodes.play(2)
        assert epoch_of(nodes).last_sum.exchange >= 3

    def test_what_is_remembered_outlasts_an_epoch_without_prices(self) -> None:
        """A node that could not settle keeps what it had; another rule's memory is not its own."""
        nodes = federation(**self.HARD)
        num_exchanges(nodes, 1)
        place = joined(nodes, nodes.ids[0])
        reading = registered(nodes, nodes.ids[0]).reading
        assert reading is not None
        assert place.left_to(place.announced) == reading.left
        assert place.left_to(replace(place.announced, rule="paper")) == ()
        refused = replace(
            place,
            remembered=(1.0,),
            registered=replace(registered(nodes, nodes.ids[0]), reading=Reading(b"", 60)),
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
    play(nodes, 2)
    assert Stage.SETTLE not in nodes.stages()
    assert set(exchanges) == {0}
    assert set(probabilities(nodes).tolist()) == {4 / num_clients}


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


def test_few_sums_are_better_than_none() -> None:
    """With that of the registrations alone there is no exchange, and prices are a first guess."""
    counts = skewed_counts(26)
    nodes = federation(counts=counts, num_participants=5)
    play(nodes, 1)
    assert Stage.SETTLE not in nodes.stages()
    found, shares = probabilities(nodes), shares_of(counts)
    assert distance(found, shares) < 0.8 * distance(np.ones(26), shares)


def test_who_are_all_alike_volunteer_alike() -> None:
    """Where labels do not differ, prices would be of nothing."""
    nodes = federation(counts=np.tile([5, 3, 2, 0], (40, 1)))
    play(nodes, 1)
    assert set(probabilities(nodes).tolist()) == {10 / 40}


def test_where_all_are_wanted_all_volunteer() -> None:
    """V is not below N."""
    nodes = federation(30, num_participants=30)
    play(nodes, 1)
    assert set(probabilities(nodes).tolist()) == {1.0}


def test_a_target_is_what_is_balanced() -> None:
    """Volunteers and those who are chosen among them have the data that is wanted."""
    counts = skewed_counts(200)
    shares = shares_of(counts)
    aimed, uniform = federation(counts=counts, rule=Prices(target=TARGET)), federation(200)
    found = {}
    for name, nodes in (("aimed", aimed), ("uniform", uniform)):
        chosen = [int(alias) for plan in play(nodes, 12) for alias in plan.aliases]
        found[name] = distance(probabilities(nodes), shares, TARGET)
        found[f"{name}, chosen"] = distance(np.bincount(chosen, minlength=200), shares, TARGET)
    assert max(found["aimed"], found["aimed, chosen"]) < 0.1
    assert min(found["uniform"], found["uniform, chosen"]) > 0.3


def test_weighted_nodes_are_balanced_by_their_samples() -> None:
    """What counts is the data of those who train together, each with its number of samples.

    They hold as much as others: a choice of small nodes would not make it more uniform.
    """
    counts = unequal()
    sizes = counts.sum(axis=1) / counts.sum(axis=1).mean()
    weights, shares = np.clip(sizes, 0.25, 4.0), shares_of(counts)
    found = {}
    for equal in (False, True):
        nodes = federation(counts=counts, equal_weights=equal, determination="grouped", tries=4)
        rounds = [[int(alias) for alias in plan.aliases] for plan in play(nodes, 12)]
        unions = [distance(weights[rows], shares[rows]) for rows in rounds]
        found[equal] = distance(probabilities(nodes) * weights, shares), np.mean(unions)
        if not equal:
            assert weights[rounds].mean() > 0.93 * weights.mean()
    assert found[False][0] < 0.7 * found[True][0]
    assert found[False][1] < 0.6 * found[True][1]
    assert registered(nodes, nodes.ids[0]).weight == 1.0


class TestLies:
    """Sums that no nodes can have told are refused by all of them, in one sentence."""

    WEIGHT = 2 + 1 + 3
    """Slot of ``P (1 - P)`` at the opening, behind two of softplus, P and three moments."""

    @staticmethod
    def check(nodes: Nodes, refusing: str) -> None:
        """Play a round; its first epoch is refused, and the next one asks half."""
        plan = nodes.play(1)
        assert plan.notes == (
            f"60 of 60 nodes refused at {refusing}; the epoch ends and all register anew.",
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
        self.check(nodes, "settle")

    def test_beyond_what_a_node_may_tell(self) -> None:
        """What does not unpack as a sum of so many nodes is refused the same way."""
        nodes = federation(simulation="encrypted")
        with_liars(nodes, [nodes.ids[7]], "registration", lambda v: v + 2**25, times=1)
        self.check(nodes, "settle")

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
        self.check(nodes, "settle")
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

    def test_numbers_stay_within_their_slots(self) -> None:
        """From 0 to the largest one, at the opening and after it."""
        rule = Prices()
        slots, later = rule.registration_slots(FRAME), rule.settlement_slots(FRAME)
        for row in range(30):
            told = rule.contribution(own(row), FRAME)
            assert told.shape == (slots.number,)
            outcome = rule.settle(own(row), POPULATION, None, summed(rule))
            assert isinstance(outcome, Unsettled)
            assert outcome.contribution.shape == (later.number,)
            for numbers, largest in ((told, slots.largest), (outcome.contribution, later.largest)):
                assert 0 <= numbers.min() <= numbers.max() <= largest

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

    def test_a_single_place_is_filled_as_well(self) -> None:
        """K = 1 has no spread to price, and yet a probability."""
        population = Population(FRAME, 30, 1, 1)
        outcome = Prices().settle(own(0), population, None, summed(Prices()))
        assert 0.0 < outcome.probability < 1.0


class TestSettings:
    """What the operator sets is what nodes read."""

    @pytest.mark.parametrize(
        "rule",
        [Prices(), Prices(1, 2), Prices(np.float64(0.5), target=np.array(TARGET))],  # type: ignore[arg-type]
    )
    def test_nodes_read_the_same(self, rule: Prices) -> None:
        """Whole numbers and those of NumPy are told as floats."""
        there = announced_rule("prices", rule.to_json())
        assert isinstance(there, Prices)
        assert there.to_json() == rule.to_json()
        assert (there.num_classes, there.local_skew) == (rule.num_classes, rule.local_skew)

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
            ({"target": [0.5, 0.4]}, "must sum to 1"),
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


def test_a_rule_without_exchanges_is_settled_at_once() -> None:
    """With the sum of the registrations alone, as where few nodes are there."""
    population = Population(FRAME, 14, 5, 5)
    rows: Sequence[NDArray[np.int64]] = [
        Prices().contribution(own(row), FRAME) for row in range(14)
    ]
    outcome = Prices().settle(own(0), population, None, np.sum(rows, axis=0))
    assert isinstance(outcome, Settled)
