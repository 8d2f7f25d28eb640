"""Tests of the paper's rule: one-hot registries, eq. 6, and the search for thresholds."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.rules.rule import announced_rule
from dubhe_flwr.rules import Frame, Own, Paper, Population, Settled

GIVEN = Paper((1, 2, 3), {1: 0.6, 2: 0.3})
COUNTS = np.array([[9, 1, 0], [0, 9, 1], [4, 5, 1], [3, 3, 4], [8, 1, 1]])
NODES = [Own(row) for row in COUNTS]
FRAME = Frame(num_classes=3, max_clients=9)


@pytest.mark.parametrize(
    ("given_", "thresholds"),
    [
        (((10, 2, 1),), {1: 0.7, 2: 0.1}),
        ((iter([1, 2, 4]), {2: 0, 1: 1}), {1: 1.0, 2: 0.0}),
        (((np.int64(1), 3), {np.int64(1): np.float32(0.5)}), {1: 0.5}),
        (((10,),), {}),
    ],
)
def test_given_thresholds_are_used(given_: Any, thresholds: Any) -> None:
    """Without given thresholds the paper's apply, if it has some; nodes read the same."""
    rule = Paper(*given_)
    there: Any = announced_rule("paper", rule.to_json())
    assert rule.candidates == there.candidates == (thresholds,)
    assert there.codebook == rule.codebook
    assert (rule.num_sums(FRAME), rule.settlement_slots(FRAME)) == (1, None)


@pytest.mark.parametrize(
    ("given_", "match"),
    [
        (((1, 2, 10), "best"), "thresholds='best' must be 'search', or a share for each size"),
        (((1, 2, 3, 4, 10), "search"), "has 81 candidates, above 64; leave out a size or pass"),
        ((range(1, 30), "search"), "has 22876792454961 candidates, above 64"),
        (((5 * 10**8, 10**9), "search"), "reference_set is for 1000000000 classes; at most 4096"),
        (((1, 4097), {1: 0.5}), "at most 4096 are allowed"),
        (((1, 2, 100), {1: 0.5, 2: 0.1}), "make a registry of more than 4096 slots"),
        ((range(1, 4097), {1: 0.5}), "make a registry of more than 4096 slots"),
        (((1, 3), {1: 1.5}), "1.5"),
    ],
)
def test_what_cannot_work_is_refused_at_once(given_: Any, match: str) -> None:
    """Such settings are refused at once, without a check that would take long."""
    with pytest.raises(SettingsError, match=match):
        Paper(*given_)


def test_the_reference_set_fixes_the_number_of_classes() -> None:
    """The number of classes is the largest size in the reference set."""
    assert GIVEN.num_classes == 3
    with pytest.raises(SettingsError, match="for 3 classes, and the nodes have 4; make its"):
        GIVEN.registration_slots(Frame(4, 9))


def test_the_description_names_the_thresholds_found() -> None:
    """The log also shows the reference set."""
    search = Paper((1, 2, 3), "search")
    assert GIVEN.describe() == "paper: reference set (G) (1, 2, 3), thresholds {1: 0.6, 2: 0.3}"
    assert search.describe().endswith("(1, 2, 3), thresholds searched for")
    assert search.describe((0.5, 0.1)).endswith("thresholds {1: 0.5, 2: 0.1}")


@given(slots=st.lists(st.integers(0, 2), min_size=7, max_size=7), own=st.sampled_from(NODES))
def test_a_refusal_does_not_depend_on_the_nodes_labels(slots: list[int], own: Own) -> None:
    """Any sum is refused by all nodes or by none, whether or not it contains the node."""
    population = Population(FRAME, num_clients=5, num_participants=3, num_registered=5)
    if sum(slots) == 5:
        assert isinstance(GIVEN.settle(own, population, None, np.array(slots)), Settled)
    else:
        with pytest.raises(RefusedError, match="overall registry does not add up"):
            GIVEN.settle(own, population, None, np.array(slots))
    with pytest.raises(RefusedError, match="expectations do not add up"):
        GIVEN.settle(own, population, (0.5,), np.array([0, 0, 1, 0]))
