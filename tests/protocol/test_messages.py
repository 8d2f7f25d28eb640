"""Tests of the bodies: each accepts what it says and nothing beside."""

from dataclasses import fields, replace
from typing import Any

import pytest
from protocol.examples import MESSAGES, REPLIES, REQUESTS

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Stage, decode, encode, messages
from dubhe_flwr.protocol.messages import HelloReply, JoinStatus, Message

JOIN = REQUESTS[Stage.JOIN]
PARTICIPATE = REQUESTS[Stage.PARTICIPATE]
DETERMINE = REQUESTS[Stage.DETERMINE]
CALIBRATE = REQUESTS[Stage.CALIBRATE]
NAN = float("nan")


def test_every_stage_has_a_request_and_a_reply() -> None:
    """The tables and the examples of these tests cover all stages."""
    assert set(messages.REQUESTS) == set(messages.REPLIES) == set(Stage)
    assert {s: type(m) for s, m in REQUESTS.items()} == messages.REQUESTS
    assert {s: type(m) for s, m in REPLIES.items()} == messages.REPLIES


@pytest.mark.parametrize(("_stage", "message"), MESSAGES)
def test_round_trip(_stage: Stage, message: Message) -> None:
    """Each body comes back from its fields, frozen."""
    assert decode(type(message), encode(message)) == message
    for field in fields(message):
        with pytest.raises(AttributeError):
            setattr(message, field.name, None)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"thresholds": (0.7,)}),
        (JOIN, {"thresholds": (0.7, 0.1, 0.0)}),
        (JOIN, {"reference_set": ()}),
        (JOIN, {"num_participants": 2, "group_size": 0}),
        (JOIN, {"num_participants": -20}),
        (JOIN, {"min_cohort": 0}),
        (JOIN, {"min_cohort": -1}),
        (JOIN, {"max_clients": 0}),
        (JOIN, {"max_draws": -1}),
        (JOIN, {"max_sums": -1}),
        (JOIN, {"seed": -2}),
        (REQUESTS[Stage.KEYGEN], {"public_keys": bytes(95)}),
        (REQUESTS[Stage.REGISTER], {"agent_public_key": bytes(31)}),
        (REQUESTS[Stage.REGISTER], {"agent_public_key": bytes(33)}),
        (PARTICIPATE, {"num_registered": 0}),
        (PARTICIPATE, {"first_round": 0}),
        (PARTICIPATE, {"num_rounds": 0}),
        (PARTICIPATE, {"num_tries": 0}),
        (PARTICIPATE, {"num_tries": -1}),
        (PARTICIPATE, {"num_rounds": 2**10, "num_tries": 2**10 + 1}),
        (DETERMINE, {"num_sums": (), "num_clients": ()}),
        (DETERMINE, {"num_sums": (5, 0)}),
        (DETERMINE, {"num_sums": (6, -1)}),
        (DETERMINE, {"num_sums": (3, 3)}),
        (DETERMINE, {"num_clients": (4, 4, 5, 4)}),
        (DETERMINE, {"num_clients": (4, 4, 5, 4, 0)}),
        (DETERMINE, {"num_clients": (4, 4, 5, 4, -4)}),
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
        (REQUESTS[Stage.MOMENTS], {"num_registered": 0}),
        (CALIBRATE, {"num_clients": 0}),
        (CALIBRATE, {"num_clients": 101}),
        (CALIBRATE, {"num_registered": 97}),
        (JOIN, {"block_size": -1}),
        (JOIN, {"block_size": 3}),
        (REQUESTS[Stage.KEYGEN], {"signatures": bytes(95)}),
        (REQUESTS[Stage.REGISTER], {"recipients_digest": bytes(31)}),
        (REQUESTS[Stage.REGISTER], {"signature": bytes(95)}),
        (REQUESTS[Stage.CHECK], {"num_clients": ()}),
        (REQUESTS[Stage.CHECK], {"num_clients": (9, 0)}),
        (REPLIES[Stage.JOIN], {"signature": b""}),
        (REPLIES[Stage.KEYGEN], {"signature": bytes(97)}),
        (REPLIES[Stage.HELLO], {"alias": ""}),
        (REPLIES[Stage.HELLO], {"alias": "a" * 257}),
        (REPLIES[Stage.HELLO], {"alias": "€" * 86}),
        (REPLIES[Stage.JOIN], {"alias": ""}),
        (REPLIES[Stage.JOIN], {"status": 6}),
        (REPLIES[Stage.JOIN], {"status": -1}),
        (REPLIES[Stage.JOIN], {"public_key": bytes(31)}),
        (REPLIES[Stage.JOIN], {"public_key": bytes(33)}),
    ],
)
def test_a_value_out_of_range_is_refused(message: Any, change: dict[str, Any]) -> None:
    """Counts, sizes and statuses have limits, in memory as on the wire."""
    with pytest.raises(MalformedMessageError):
        replace(message, **change)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"min_cohort": 20, "group_size": 20, "block_size": 21}),
        (JOIN, {"min_cohort": 1, "num_participants": 1, "group_size": 0}),
        (JOIN, {"max_clients": 1, "max_draws": 0, "max_sums": 0, "seed": 0}),
        (PARTICIPATE, {"num_registered": 1, "first_round": 1, "num_rounds": 1, "num_tries": 1}),
        (PARTICIPATE, {"num_rounds": 2**10, "num_tries": 2**10}),
        (DETERMINE, {"num_sums": (1,), "num_clients": (1,)}),
        (JOIN, {"volunteer_tries": 1}),
        (JOIN, {"group_size": 0}),
        (JOIN, {"block_size": 0}),
        (JOIN, {"block_size": 4}),
        (REQUESTS[Stage.KEYGEN], {"signatures": b""}),
        (REQUESTS[Stage.CHECK], {"num_clients": (1,)}),
        (REPLIES[Stage.JOIN], {"signature": bytes(96)}),
        (JOIN, {"group_size": 3}),
        (JOIN, {"group_size": 20}),
        (JOIN, {"coverage": 0.0, "floor": 0.0, "local_skew": 0.0}),
        (JOIN, {"coverage": 1e6, "floor": 1.0, "local_skew": 1000.0}),
        (REQUESTS[Stage.MOMENTS], {"num_registered": 1}),
        (CALIBRATE, {"num_clients": 1}),
        (CALIBRATE, {"num_clients": 100}),
        (PARTICIPATE, {"probabilities": b""}),
        (REPLIES[Stage.HELLO], {"alias": "€" * 85 + "a"}),
        (REPLIES[Stage.HELLO], {"alias": "\ud800"}),
        (REPLIES[Stage.JOIN], {"status": 5}),
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
