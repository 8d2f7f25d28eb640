"""Tests of what a node says about its data, and what it keeps to itself."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.protocol import NodePolicy
from dubhe_flwr.protocol.messages import JoinRequest, JoinStatus
from dubhe_flwr.protocol.policy import has_moved, is_willing, read_label_counts

ANNOUNCED = JoinRequest((1, 3), (0.7,), 20, 2048, 1000, 3, 1000, 500, -1)


def policy(counts: Any, **options: Any) -> NodePolicy:
    """Return the policy of a node with these label counts."""
    return NodePolicy(label_counts=lambda: counts, alias="3", **options)


def broken() -> Any:
    """Fail as an owner's code may."""
    raise KeyError("secret-31415")


@pytest.mark.parametrize(
    "counts",
    [
        [31, 0, 5],
        (31, 0, 5),
        np.array([31, 0, 5], dtype=np.uint8),
        np.array([31, 0, 5], dtype=np.uint64),
        [2**42 - 1, 0, 0],
    ],
)
def test_a_node_with_data_joins(counts: Any) -> None:
    """Lists, tuples and arrays of any integers will do."""
    status, read = read_label_counts(policy(counts), ANNOUNCED)
    assert status is JoinStatus.JOINS
    assert read is not None
    assert read.dtype == np.int64
    assert read.tolist() == list(counts)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ([0, 0, 0], JoinStatus.NO_DATA),
        ([1, 2], JoinStatus.WRONG_NUMBER_OF_CLASSES),
        ([1, 2, 3, 4], JoinStatus.WRONG_NUMBER_OF_CLASSES),
        ([], JoinStatus.WRONG_NUMBER_OF_CLASSES),
        (7, JoinStatus.INVALID_LABEL_COUNTS),
        (None, JoinStatus.INVALID_LABEL_COUNTS),
        ({0: 1}, JoinStatus.INVALID_LABEL_COUNTS),
        ([[1, 2, 3]], JoinStatus.INVALID_LABEL_COUNTS),
        ([1, -2, 3], JoinStatus.INVALID_LABEL_COUNTS),
        ([1.0, 2.0, 3.0], JoinStatus.INVALID_LABEL_COUNTS),
        ([1, float("nan"), 3], JoinStatus.INVALID_LABEL_COUNTS),
        ([True, False, True], JoinStatus.INVALID_LABEL_COUNTS),
        (["1", "2", "3"], JoinStatus.INVALID_LABEL_COUNTS),
        ([None, 2, 3], JoinStatus.INVALID_LABEL_COUNTS),
        ([2**70, 0, 0], JoinStatus.INVALID_LABEL_COUNTS),
        ([2**42, 0, 0], JoinStatus.INVALID_LABEL_COUNTS),
        ([2**62, 2**62, 2**62], JoinStatus.INVALID_LABEL_COUNTS),
        (np.array([2**64 - 1, 5, 5], dtype=np.uint64), JoinStatus.INVALID_LABEL_COUNTS),
        (np.array([2**63, 2**63, 0], dtype=np.uint64), JoinStatus.INVALID_LABEL_COUNTS),
        ([[1, 2], 3, 4], JoinStatus.INVALID_LABEL_COUNTS),
    ],
)
def test_unfit_label_counts_keep_a_node_out(counts: Any, status: JoinStatus) -> None:
    """The server learns which check failed, and no number."""
    assert read_label_counts(policy(counts), ANNOUNCED) == (status, None)


def test_counts_that_are_none_are_told_to_the_owner(caplog: pytest.LogCaptureFixture) -> None:
    """The node's log says what they have to be, and shows no count."""
    with caplog.at_level(logging.WARNING):
        read_label_counts(policy([41.5, 42.0, 43.0]), ANNOUNCED)
    assert caplog.messages == [
        "dubhe: label_counts returned no list of whole numbers from 0 up; the node stays out."
    ]


def test_a_wrong_number_of_classes_is_told_to_the_owner(caplog: pytest.LogCaptureFixture) -> None:
    """Both numbers stand in the node's log, and no count."""
    with caplog.at_level(logging.WARNING):
        read_label_counts(policy([41, 42, 43, 44]), ANNOUNCED)
    assert caplog.messages == [
        (
            "dubhe: label_counts returned 4 numbers for 3 classes, and has to return the number of "
            "samples of each; the node stays out."
        )
    ]


def test_failing_label_counts_keep_a_node_out(caplog: pytest.LogCaptureFixture) -> None:
    """The owner's error is logged by type only, for its text may tell labels."""
    failing = NodePolicy(label_counts=broken, alias="3")
    with caplog.at_level(logging.DEBUG):
        status, counts = read_label_counts(failing, ANNOUNCED)
    assert (status, counts) == (JoinStatus.INVALID_LABEL_COUNTS, None)
    assert caplog.record_tuples == [
        ("flwr", logging.WARNING, "dubhe: label_counts raised KeyError; the node stays out.")
    ]


@pytest.mark.parametrize(
    "change",
    [{"min_cohort": 2}, {"key_bits": 1024}, {"thresholds": (2.0,)}, {"key_bits": 2**20}],
)
def test_parameters_below_the_owners_floor_are_refused(change: dict[str, Any]) -> None:
    """The labels are not even read."""
    unread = NodePolicy(label_counts=broken, alias="3")
    status, counts = read_label_counts(unread, replace(ANNOUNCED, **change))
    assert (status, counts) == (JoinStatus.REFUSES_PARAMETERS, None)


def test_the_owner_sets_the_floors() -> None:
    """Smaller cohorts and keys are accepted by who says so."""
    lax = policy([1, 2, 3], min_cohort=2, min_key_bits=512)
    asked = replace(ANNOUNCED, min_cohort=2, key_bits=512)
    assert read_label_counts(lax, asked)[0] is JoinStatus.JOINS


def test_who_takes_no_part_is_not_asked_for_labels() -> None:
    """Willingness is asked with round 0, before the labels are read."""
    asked: list[int] = []

    def willing(server_round: int) -> bool:
        asked.append(server_round)
        return False

    unwilling = NodePolicy(label_counts=broken, alias="3", willing=willing)
    assert read_label_counts(unwilling, ANNOUNCED) == (JoinStatus.UNWILLING, None)
    assert asked == [0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _r: np.True_, True),
        (lambda _r: 0, False),
        (lambda r: r % 2, True),
        (lambda r: {}[r], False),
    ],
)
def test_willing_is_a_plain_bool(answer: Callable[[int], Any], expected: bool) -> None:
    """Whatever the owner's code returns becomes a bool that can travel; an error means no."""
    assert is_willing(policy([1], willing=answer), 5) is expected


def test_a_failing_willing_is_logged_by_type(caplog: pytest.LogCaptureFixture) -> None:
    """The owner sees that the code failed."""
    assert not is_willing(policy([1], willing=lambda _r: broken()), 1)
    assert caplog.record_tuples == [
        ("flwr", logging.WARNING, "dubhe: willing raised KeyError; the node stays out.")
    ]


@pytest.mark.parametrize(
    ("now", "limit", "moved"),
    [
        ([6, 2, 0], 0.0, False),
        ([12, 3, 1], 0.1, True),
        ([12, 3, 1], 0.2, False),
        ([0, 0, 9], 1.99, True),
        ([0, 0, 9], 2.0, False),
        ([0, 0, 0], 0.0, False),
        ([1, 2], 0.0, False),
        ([1, -2, 3], 0.0, False),
    ],
)
def test_labels_that_moved_further_than_the_owner_lets_pass(
    now: list[int], limit: float, moved: bool
) -> None:
    """The distance is L1 from 0 to 2; what cannot be registered is no news."""
    registered = (3 * 2**18, 2**18, 0)
    assert has_moved(policy(now, max_label_shift=limit), registered) is moved


def test_labels_are_not_looked_at_unless_the_owner_says_so() -> None:
    """They may take long to count."""
    assert not has_moved(NodePolicy(label_counts=broken, alias="3"), (2**20, 0, 0))


def test_label_counts_that_fail_at_a_draw_are_logged_by_type(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The node draws all the same."""
    failing = NodePolicy(label_counts=broken, alias="3", max_label_shift=0.1)
    assert not has_moved(failing, (2**20, 0, 0))
    sentence = "dubhe: label_counts raised KeyError; the node goes on with what it registered."
    assert caplog.record_tuples == [("flwr", logging.WARNING, sentence)]


def test_repr_shows_no_label_counts() -> None:
    """A callable may carry the counts in its own repr, as a partial does."""
    assert "31415" not in repr(NodePolicy(label_counts=partial(list, [31415]), alias="3"))


def test_defaults_are_strict() -> None:
    """Draws are private, cohorts have three clients, keys 2048 bits, unless the owner says so."""
    strict = policy([1])
    assert (strict.seeded_draws, strict.min_cohort, strict.min_key_bits) == (False, 3, 2048)
    assert is_willing(strict, 1)
