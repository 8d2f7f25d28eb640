"""Tests of the header, and of the two doors through which messages come in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from protocol.wire.examples import MESSAGES, REPLIES, REQUESTS, misfits, sealed

from dubhe_flwr.errors import MalformedMessageError, ProtocolError, StaleMessageError
from dubhe_flwr.protocol import PROTOCOL_VERSION, Stage
from dubhe_flwr.protocol.wire.envelope import Envelope, open_request, reply_reader
from dubhe_flwr.protocol.wire.messages import Message

HEADER = Envelope(bytes(range(16)), "join", sequence=3)


def refused(door: Callable[[Any], object], fields: Any) -> bool:
    """Return whether a door stays shut with a protocol error; any other error goes on."""
    try:
        door(fields)
    except ProtocolError:
        return True
    return False


@pytest.mark.parametrize(("stage", "request_"), REQUESTS.items())
def test_a_request_opens(stage: Stage, request_: Message) -> None:
    """A node gets the header and the body that were sealed."""
    header = replace(HEADER, stage=stage.value)
    assert open_request(header.seal(request_)) == (header, request_)


@pytest.mark.parametrize(("stage", "reply"), REPLIES.items())
def test_a_reply_opens(stage: Stage, reply: Message) -> None:
    """The server gets the body that was sealed."""
    header = replace(HEADER, stage=stage.value)
    assert reply_reader(header)(header.seal(reply)) == reply


@pytest.mark.parametrize(("stage", "message"), MESSAGES)
def test_every_misfit_is_refused(stage: Stage, message: Message) -> None:
    """Missing, unknown and foreign fields give a protocol error and no other."""
    header = replace(HEADER, stage=stage.value)
    fields = sealed(stage, message)
    for change, spoilt in misfits(fields):
        for door in (open_request, reply_reader(header)):
            assert refused(door, spoilt), change


@pytest.mark.parametrize("stage", list(Stage))
def test_a_request_is_no_reply(stage: Stage) -> None:
    """The two directions of a stage are not mistaken for each other."""
    with pytest.raises(MalformedMessageError):
        open_request(sealed(stage, REPLIES[stage]))
    with pytest.raises(MalformedMessageError):
        reply_reader(replace(HEADER, stage=stage.value))(sealed(stage, REQUESTS[stage]))


@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION + 1, -1, 2**63 - 1])
def test_another_version_is_stale(version: int) -> None:
    """Both sides say which version they want, and what to do."""
    fields = {**sealed(Stage.JOIN, REQUESTS[Stage.JOIN]), "version": version}
    with pytest.raises(StaleMessageError, match=r"is not 1; use the same version of dubhe-flwr"):
        open_request(fields)
    fields = {**sealed(Stage.JOIN, REPLIES[Stage.JOIN]), "version": version}
    with pytest.raises(StaleMessageError, match="same version"):
        reply_reader(HEADER)(fields)
