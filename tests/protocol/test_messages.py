"""Tests of the bodies: each accepts what it says and nothing beside."""

from dataclasses import fields, replace
from typing import Any

import pytest
from protocol.examples import MESSAGES, REPLIES, REQUESTS

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Stage, decode, encode, messages
from dubhe_flwr.protocol.messages import (
    CalibrateRequest,
    Message,
    MomentsRequest,
    ParticipateRequest,
)

JOIN = REQUESTS[Stage.JOIN]
PARTICIPATE = REQUESTS[Stage.PARTICIPATE]
DETERMINE = REQUESTS[Stage.DETERMINE]
EXPECT = REQUESTS[Stage.EXPECT]
SEARCH = REQUESTS[Stage.SEARCH]
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


def test_where_nothing_is_searched_the_first_candidate_holds() -> None:
    """A server that does not search names none."""
    assert MomentsRequest(b"", 9).candidate == 0
    assert CalibrateRequest(b"", 9, b"", 8).candidate == 0
    assert ParticipateRequest(b"", 9, 1, 1, 1).candidate == 0


@pytest.mark.parametrize(
    ("message", "change"),
    [
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
        (EXPECT, {"num_registered": 0}),
        (EXPECT, {"num_tries": -1}),
        (EXPECT, {"num_tries": 2**20 + 1}),
        (SEARCH, {"num_clients": 0}),
        (SEARCH, {"num_tries": -1}),
        (SEARCH, {"num_tries": 2**20 + 1}),
        (REQUESTS[Stage.MOMENTS], {"num_registered": 0}),
        (CALIBRATE, {"num_clients": 0}),
        (CALIBRATE, {"num_clients": 101}),
        (CALIBRATE, {"num_registered": 97}),
        (REQUESTS[Stage.KEYGEN], {"signatures": bytes(95)}),
        (REQUESTS[Stage.REGISTER], {"recipients_digest": bytes(31)}),
        (REQUESTS[Stage.REGISTER], {"signature": bytes(95)}),
        (REQUESTS[Stage.CHECK], {"num_clients": ()}),
        (REQUESTS[Stage.CHECK], {"num_clients": (9, 0)}),
        (REPLIES[Stage.JOIN], {"signature": b""}),
        (REPLIES[Stage.KEYGEN], {"signature": bytes(97)}),
    ],
)
def test_a_value_out_of_range_is_refused(message: Any, change: dict[str, Any]) -> None:
    """Counts, sizes and statuses have limits, in memory as on the wire."""
    with pytest.raises(MalformedMessageError):
        replace(message, **change)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (PARTICIPATE, {"num_registered": 1, "first_round": 1, "num_rounds": 1, "num_tries": 1}),
        (PARTICIPATE, {"num_rounds": 2**10, "num_tries": 2**10}),
        (DETERMINE, {"num_sums": (1,), "num_clients": (1,)}),
        (EXPECT, {"num_registered": 1, "num_tries": 0}),
        (EXPECT, {"num_tries": 2**20}),
        (SEARCH, {"num_clients": 1, "num_tries": 0}),
        (SEARCH, {"num_tries": 2**20}),
        (REQUESTS[Stage.KEYGEN], {"signatures": b""}),
        (REQUESTS[Stage.CHECK], {"num_clients": (1,)}),
        (REPLIES[Stage.JOIN], {"signature": bytes(96)}),
        (REQUESTS[Stage.MOMENTS], {"num_registered": 1}),
        (CALIBRATE, {"num_clients": 1}),
        (CALIBRATE, {"num_clients": 100}),
        (PARTICIPATE, {"probabilities": b""}),
    ],
)
def test_a_value_at_the_limit_is_accepted(message: Any, change: dict[str, Any]) -> None:
    """The limits themselves are within."""
    assert replace(message, **change) != message
