"""Tests of the first messages: each parameter of an epoch has its limits."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.examples import REPLIES, REQUESTS

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.messages import HelloReply, JoinStatus

JOIN: Any = REQUESTS[Stage.JOIN]
HELLO = REPLIES[Stage.HELLO]
JOIN_REPLY = REPLIES[Stage.JOIN]
NAN = float("nan")


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"thresholds": (0.7,)}),
        (JOIN, {"thresholds": (0.7, 0.1, 0.0)}),
        (JOIN, {"thresholds": ()}),
        (JOIN, {"thresholds": (0.7, 0.1) * 65}),
        (JOIN, {"reference_set": ()}),
        (JOIN, {"reference_set": (10,)}),
        (JOIN, {"num_participants": 2, "group_size": 0}),
        (JOIN, {"num_participants": -20}),
        (JOIN, {"min_cohort": 0}),
        (JOIN, {"min_cohort": -1}),
        (JOIN, {"max_clients": 0}),
        (JOIN, {"max_draws": -1}),
        (JOIN, {"max_sums": -1}),
        (JOIN, {"seed": -2}),
        (JOIN, {"volunteer_tries": 0}),
        (JOIN, {"group_size": 2}),
        (JOIN, {"group_size": 21}),
        (JOIN, {"group_size": -1}),
        (JOIN, {"coverage": -0.1}),
        (JOIN, {"coverage": NAN}),
        (JOIN, {"coverage": 1.1e6}),
        (JOIN, {"floor": -0.1}),
        (JOIN, {"floor": 1.1}),
        (JOIN, {"floor": NAN}),
        (JOIN, {"local_skew": -0.1}),
        (JOIN, {"local_skew": 1000.1}),
        (JOIN, {"local_skew": NAN}),
        (JOIN, {"block_size": -1}),
        (JOIN, {"block_size": 3}),
        (JOIN_REPLY, {"signature": b""}),
        (HELLO, {"alias": ""}),
        (HELLO, {"alias": "a" * 257}),
        (HELLO, {"alias": "€" * 86}),
        (JOIN_REPLY, {"alias": ""}),
        (JOIN_REPLY, {"alias": "3\nERROR"}),
        *((HELLO, {"alias": f"3{control}"}) for control in "\0\t\n\r\x1b\x7f\x85\u2028\u2029"),
        (JOIN_REPLY, {"status": 6}),
        (JOIN_REPLY, {"status": -1}),
        (JOIN_REPLY, {"public_key": bytes(31)}),
        (JOIN_REPLY, {"public_key": bytes(33)}),
    ],
)
def test_a_value_out_of_range_is_refused(message: Any, change: dict[str, Any]) -> None:
    """Parameters, aliases and keys have limits, in memory as on the wire."""
    with pytest.raises(MalformedMessageError):
        replace(message, **change)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"min_cohort": 20, "group_size": 20, "block_size": 21}),
        (JOIN, {"block_size": 0}),
        (JOIN, {"block_size": 4}),
        (JOIN, {"min_cohort": 1, "num_participants": 1, "group_size": 0}),
        (JOIN, {"thresholds": (0.7, 0.1) * 64}),
        (JOIN, {"reference_set": (10,), "thresholds": ()}),
        (JOIN, {"max_clients": 1, "max_draws": 0, "max_sums": 0, "seed": 0}),
        (JOIN, {"volunteer_tries": 1}),
        (JOIN, {"group_size": 0}),
        (JOIN, {"group_size": 3}),
        (JOIN, {"group_size": 20}),
        (JOIN, {"coverage": 0.0, "floor": 0.0, "local_skew": 0.0}),
        (JOIN, {"coverage": 1e6, "floor": 1.0, "local_skew": 1000.0}),
        (HELLO, {"alias": "€" * 85 + "a"}),
        (HELLO, {"alias": "\ud800"}),
        (HELLO, {"alias": "Zoë's laptop\u00a0\u200d"}),
        (JOIN_REPLY, {"status": 5}),
    ],
)
def test_a_value_at_the_limit_is_accepted(message: Any, change: dict[str, Any]) -> None:
    """The limits themselves are within."""
    assert replace(message, **change) != message


def test_statuses_are_numbers_that_travel() -> None:
    """The numbers on the wire do not change from version to version."""
    assert {status.name: int(status) for status in JoinStatus} == {
        "JOINS": 0,
        "UNWILLING": 1,
        "NO_DATA": 2,
        "WRONG_NUMBER_OF_CLASSES": 3,
        "INVALID_LABEL_COUNTS": 4,
        "REFUSES_PARAMETERS": 5,
    }


def test_an_alias_of_one_byte_is_enough() -> None:
    """An alias may be as short as a digit."""
    assert HelloReply("3", willing=False).alias == "3"


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({}, 1),
        ({"thresholds": (0.7, 0.1) * 9}, 9),
        ({"reference_set": (10,), "thresholds": ()}, 1),
    ],
)
def test_candidates_are_counted(change: dict[str, Any], number: int) -> None:
    """One after the other, each with as many thresholds as there are sizes below C."""
    assert replace(JOIN, **change).num_candidates == number


@pytest.mark.parametrize(
    ("volunteer_tries", "num_registered", "volunteers", "charged"),
    [(1, 100, 20, 3), (1, 21, 20, 3), (10, 1000, 200, 30), (10, 100, 50, 9), (10, 41, 20, 3)],
)
def test_a_draw_for_more_volunteers_costs_more(
    volunteer_tries: int, num_registered: int, volunteers: int, charged: int
) -> None:
    """As many draws as it has times K volunteers, rounded up, since it tells as much."""
    announced = replace(JOIN, volunteer_tries=volunteer_tries)
    assert announced.num_volunteers(num_registered) == volunteers
    assert announced.draws_charged(3, num_registered) == charged
