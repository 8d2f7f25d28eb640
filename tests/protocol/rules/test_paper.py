"""Tests of the paper's rule: one-hot registries, eq. 6, and the search for thresholds."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.core.registration import default_thresholds
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.rules.rule import announced_rule
from dubhe_flwr.rules import Frame, Own, Paper, Population, Settled, Slots

GIVEN = Paper((1, 2, 3), {1: 0.6, 2: 0.3})
SEARCH = Paper((1, 2, 3), "search")
COUNTS = np.array([[9, 1, 0], [0, 9, 1], [4, 5, 1], [3, 3, 4], [8, 1, 1]])
NODES = [Own(row) for row in COUNTS]
FRAME = Frame(num_classes=3, max_clients=9)
POPULATION = Population(FRAME, num_clients=5, num_participants=2, num_volunteers=3)


class TestSettings:
    """The announced settings are the ones that apply."""

    @pytest.mark.parametrize(
        ("given_", "thresholds"),
        [
            (((10, 2, 1),), {1: 0.7, 2: 0.1}),
            ((iter([1, 2, 4]), {2: 0, 1: 1}), {1: 1.0, 2: 0.0}),
            (((np.int64(1), 3), {np.int64(1): np.float32(0.5)}), {1: 0.5}),
            (((10,),), {}),
        ],
    )
    def test_given_thresholds_are_used(self, given_: Any, thresholds: Any) -> None:
        """Without given thresholds the paper's apply, if it has some; nodes read the same."""
        rule = Paper(*given_)
        assert rule.candidates == (thresholds,)
        there = announced_rule("paper", rule.to_json())
        assert isinstance(there, Paper)
        assert there.candidates == rule.candidates
        assert there.codebook == rule.codebook
        assert (rule.num_sums(FRAME, 9), rule.settlement_slots(FRAME)) == (1, None)

    @pytest.mark.parametrize("reference_set", [(1, 2, 10), (1, 3), (2, 5), (1, 2, 3, 4)])
    def test_a_search_tries_a_grid_of_thresholds(self, reference_set: Any) -> None:
        """Three shares of each size; the paper's own thresholds are among them."""
        rule = Paper(reference_set, "search")
        assert len(rule.candidates) == 3 ** (len(reference_set) - 1)
        assert json.loads(rule.to_json())["thresholds"] == "search"
        there = announced_rule("paper", rule.to_json())
        assert isinstance(there, Paper)
        assert there.candidates == rule.candidates
        num_classes, length = rule.num_classes, rule.codebook.length
        frame = Frame(num_classes, 9)
        number = len(rule.candidates)
        assert rule.registration_slots(frame) == Slots(number * length, 1)
        assert rule.settlement_slots(frame) == Slots(number * (num_classes + 1), 2**20)
        assert rule.num_sums(frame, 9) == 2
        if paper := default_thresholds(rule.codebook):
            assert paper in rule.candidates

    @pytest.mark.parametrize(
        ("given_", "match"),
        [
            (((1, 2, 10), "best"), "thresholds='best' must be 'search', or a share for each size"),
            (((1, 2, 3, 4, 10), "search"), "has 81 candidates, above 64; leave out a size or give"),
            ((range(1, 30), "search"), "has 22876792454961 candidates, above 64"),
            (
                ((10**9 // 2, 10**9), "search"),
                "reference_set is for 1000000000 classes; at most 4096",
            ),
            (((1, 4097), {1: 0.5}), "at most 4096 are allowed"),
            (((1, 2, 100), {1: 0.5, 2: 0.1}), "makes a registry of 5051 slots"),
            (((1, 3), {1: 1.5}), "1.5"),
        ],
    )
    def test_what_cannot_work_is_refused_at_once(self, given_: Any, match: str) -> None:
        """Such settings are refused at once, without a check that would take long."""
        with pytest.raises(SettingsError, match=match):
            Paper(*given_)

    def test_the_reference_set_fixes_the_number_of_classes(self) -> None:
        """The number of classes is the largest size in the reference set."""
        assert GIVEN.num_classes == 3
        with pytest.raises(SettingsError, match="for 3 classes, and the nodes have 4; make its"):
            GIVEN.registration_slots(Frame(4, 9))

    def test_the_description_names_the_thresholds_found(self) -> None:
        """The log also shows the reference set."""
        assert GIVEN.describe() == "paper: reference set (G) (1, 2, 3), thresholds {1: 0.6, 2: 0.3}"
        assert SEARCH.describe().endswith("(1, 2, 3), thresholds searched for")
        assert SEARCH.describe((0.5, 0.1)).endswith("thresholds {1: 0.5, 2: 0.1}")


@pytest.mark.parametrize("num_volunteers", [3, 9])
def test_a_node_missing_from_the_sum_draws_like_any_other(num_volunteers: int) -> None:
    """The node's probability is V / N, at most 1."""
    others = np.array([0, 2, 3, 0, 0, 0, 0])
    population = Population(FRAME, 5, 2, num_volunteers)
    assert GIVEN.settle(NODES[0], population, None, others) == Settled(min(1.0, num_volunteers / 5))


@given(slots=st.lists(st.integers(0, 2), min_size=7, max_size=7), own=st.sampled_from(NODES))
def test_a_refusal_does_not_depend_on_the_nodes_labels(slots: list[int], own: Own) -> None:
    """Any sum is refused by all nodes or by none."""
    if sum(slots) == 5:
        assert isinstance(GIVEN.settle(own, POPULATION, None, np.array(slots)), Settled)
    else:
        with pytest.raises(RefusedError, match="overall registry does not add up"):
            GIVEN.settle(own, POPULATION, None, np.array(slots))


@pytest.mark.parametrize(
    ("reference_set", "usual"), [((1, 2, 10), {1: 0.7, 2: 0.1}), ((1, 2, 4), {1: 0.7, 2: 0.2})]
)
def test_a_search_starts_with_the_papers_thresholds(reference_set: Any, usual: Any) -> None:
    """A search starts with the paper's thresholds, if it gives any, or else in the middle."""
    rule = Paper(reference_set, "search")
    frame = Frame(rule.num_classes, 10)
    counts = np.eye(rule.num_classes, dtype=np.int64) * 5 + 1
    population = Population(frame, len(counts), 2, 2)
    sums: Any = sum(rule.contribution(Own(row), population) for row in counts)
    outcome: Any = rule.settle(Own(counts[0]), population, None, sums)
    assert outcome.probability == outcome.state[rule.candidates.index(usual)]
