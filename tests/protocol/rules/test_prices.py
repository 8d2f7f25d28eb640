"""Tests of prices through real sessions: nodes fit the same prices to the same sums."""

from dataclasses import replace
from functools import cache
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
    skewed_counts,
)

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.rules import Frame, Own, Population, Prices, Settled, Tries, Unsettled

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


@pytest.mark.parametrize("simulation", ["plain", "encrypted"])
def test_nodes_find_the_same_prices(simulation: str) -> None:
    """Nodes settle after some exchanges, at the same prices."""
    nodes = federation(simulation=simulation, num_participants=15)
    plan = nodes.play(1)
    assert (nodes.errors, plan.notes) == ([], ())
    assert 1 <= epoch_of(nodes).last_sum.exchange <= 8
    assert len({joined(nodes, node_id).result for node_id in nodes.ids}) == 1
    assert len({reading_of(nodes, node_id).probability for node_id in nodes.ids}) > 4
    assert plan.privacy is not None
    (spent,) = {joined(nodes, node_id).budget.spent for node_id in nodes.ids}
    assert spent == pytest.approx(plan.privacy.num_sums / plan.privacy.most_sums)


@pytest.mark.parametrize("num_participants", [4, 11])
def test_below_twelve_volunteers_there_are_no_prices(num_participants: int) -> None:
    """Noise would drown the sums; without noise there are prices all the same."""
    nodes = federation(num_participants=num_participants, determination=Tries(1))
    assert nodes.play(1).privacy is None
    found = {reading_of(nodes, node_id).probability for node_id in nodes.ids}
    assert found == {num_participants / 60}
    nodes = federation(num_participants=num_participants, rule=Prices(noise=0.0))
    assert nodes.play(1).privacy is None
    assert len({reading_of(nodes, node_id).probability for node_id in nodes.ids}) > 4


@pytest.mark.parametrize("stage", [Stage.REGISTER, Stage.SETTLE])
def test_all_nodes_refuse_a_sum_with_lies(stage: Stage) -> None:
    """Sums that no nodes can have contributed end the period; the next period asks half."""
    nodes = federation(simulation="encrypted", num_participants=15)
    field = "registration" if stage == Stage.REGISTER else "settlement"
    lies: list[int] = []

    def alter(at: str, node_id: int, reply: Any) -> Any:
        if at != stage or node_id != nodes.ids[7] or lies:
            return reply
        lies.append(1)
        node = joined(nodes, node_id)
        shape = node.terms.vault.fields[field]
        values = np.full(shape.number, 40 * shape.largest)
        return {**reply, ADDED[stage]: encrypted(node, field, values)}

    nodes.alter_reply = alter
    plan = nodes.play(1)
    assert lies
    assert plan.notes == (
        "60 of 60 nodes refused at settle; the epoch ends and all nodes register again.",
        "Epochs refused in a row: 1; the next one asks 30 of 60 nodes, drawn at random.",
    )
    assert {type(error) for error in nodes.errors} == {RefusedError}
    assert {str(error) for error in nodes.errors} == {"The sum is not valid."}


ADDED = {Stage.REGISTER: "registration", Stage.SETTLE: "contribution"}

COUNTS = skewed_counts(80) * np.array([8, 2, 1, 1])
FRAME = Frame(4, 100)
POPULATION = Population(FRAME, 80, 20, 20)


def own(row: int, seed: int = 0) -> Own:
    """Return what a node knows of itself."""
    return Own(COUNTS[row], rng=generator(seed, "rounding", row))


def summed(rule: Prices) -> NDArray[np.int64]:
    """Return the sum of the registrations."""
    return np.asarray(
        np.sum([rule.contribution(own(row), POPULATION) for row in range(80)], axis=0)
    )


@cache
def settled(rule: Prices, seed: int = 0) -> list[Settled]:
    """Return what all nodes settle on, after the exchanges of a first period."""
    outcomes: list[Any] = [
        rule.settle(own(row, seed), POPULATION, None, summed(rule)) for row in range(80)
    ]
    while isinstance(outcomes[0], Unsettled):
        outcomes = again(rule, outcomes, seed)
    return outcomes


def again(rule: Prices, outcomes: list[Any], seed: int) -> list[Any]:
    """Return the outcomes of all nodes from the sum of their contributions."""
    sums = np.sum([outcome.contribution for outcome in outcomes], axis=0)
    memory = outcomes[0].memory
    return [rule.settle(own(row, seed), POPULATION, memory, sums) for row in range(80)]


class TestSettle:
    """Sums, and the memory of the sum before, give a probability."""

    @pytest.mark.parametrize("noise", [None, 0.0])
    def test_nodes_with_rare_labels_volunteer_more_often(self, noise: float | None) -> None:
        """The expected labels of the volunteers are nearer to uniform, and V is about met."""
        found = np.array([one.probability for one in settled(Prices(noise=noise))])
        shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
        union = found @ shares / found.sum()
        assert np.abs(union - 0.25).sum() < 0.7 * np.abs(shares.mean(axis=0) - 0.25).sum()
        assert found.sum() == pytest.approx(20, rel=0.35)

    def test_noise_repeats_with_the_seed(self) -> None:
        """Another seed makes other noise; without noise nothing depends on it but the level."""
        first, other = (settled(Prices(), seed)[0].result for seed in (0, 1))
        again = settled.__wrapped__(Prices())[0].result
        assert again == first != other
        plain, also = (settled(Prices(noise=0.0), seed)[0].result for seed in (0, 1))
        assert plain == also

    def test_spent_label_counts_enter_no_sum(self) -> None:
        """The node adds noise alone."""
        spent = replace(own(3, 5), is_silent=True)
        empty = replace(own(3, 5), label_counts=np.array([1, 0, 0, 0]), is_silent=True)
        told = [Prices().contribution(each, POPULATION).tolist() for each in (spent, empty)]
        assert told[0] == told[1]

    def test_the_budget_is_four_times_the_variance(self) -> None:
        """It ranges from 4 sums to 64; without noise or in too small a pool nothing is counted."""
        entries = [Prices().sum_budget(volunteers) for volunteers in (12, 24, 48, 500)]
        assert entries == [4, 16, 64, 64]
        assert Prices(noise=2.0).sum_budget(20) == 16
        assert Prices(noise=0.0).sum_budget(20) is None
        assert Prices().sum_budget(11) is None


class TestSettings:
    """The operator's settings are what nodes read."""

    def test_the_description_shows_the_settings(self) -> None:
        """The log shows the settings; prices stay private."""
        assert Prices(0.1, 1.0, TARGET).describe((0.5,)) == (
            "prices: coverage 0.1, local skew 1, with a target"
        )

    def test_a_target_fixes_the_number_of_classes(self) -> None:
        """Its length is their number; the federation's own mix fixes none."""
        assert (Prices().num_classes, Prices(target=TARGET).num_classes) == (None, 4)
        assert Prices(target="own").num_classes is None

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"coverage": "0.3"}, "coverage='0.3' must be a number"),
            ({"local_skew": None}, "local_skew=None must be a number"),
            ({"coverage": 0}, "coverage=0.0 must be above 0"),
            ({"coverage": float("nan")}, "coverage=nan must be from 0"),
            ({"coverage": 1001}, "coverage=1001.0 must be from 0 to 1000"),
            ({"local_skew": -0.1}, "local_skew=-0.1 must be from 0"),
            ({"target": [1.0]}, "a share for each class"),
            ({"target": [1.0, 0.0]}, "a share for each class"),
            ({"target": [1.5, -0.5]}, "a share for each class"),
            ({"target": [[0.5, 0.5]]}, "a share for each class"),
            ({"target": [float("nan"), 0.5]}, "a share for each class"),
            ({"target": [0.5, 0.4]}, "shares sum to 1"),
            ({"target": ["a", "b"]}, "must have a share"),
            ({"target": "others"}, "must have a share"),
            ({"noise": -1.0}, "noise=-1.0 must be from 0"),
            ({"noise": "1"}, "noise='1' must be a number"),
        ],
    )
    def test_what_cannot_work_is_refused(self, settings: dict[str, Any], match: str) -> None:
        """The error shows the value and what it must be."""
        with pytest.raises(SettingsError, match=match):
            Prices(**settings)

    def test_one_class_has_no_prices(self) -> None:
        """There is nothing to balance."""
        with pytest.raises(SettingsError, match="num_classes=1 must be at least 2"):
            Prices().registration_slots(Frame(1, 100))
