"""Tests of the header, and of the two doors through which messages come in."""

from dataclasses import replace

import pytest
from protocol.wire.examples import REPLIES, REQUESTS, sealed

from dubhe_flwr.errors import MalformedMessageError, StaleMessageError
from dubhe_flwr.protocol import PROTOCOL_VERSION, Stage
from dubhe_flwr.protocol.wire.envelope import Envelope, open_request, reply_reader

HEADER = Envelope(bytes(range(16)), "join", sequence=3)


@pytest.mark.parametrize("stage", list(Stage))
def test_a_request_is_no_reply(stage: Stage) -> None:
    """The two directions of a stage are not mistaken for each other."""
    with pytest.raises(MalformedMessageError):
        open_request(sealed(stage, REPLIES[stage]))
    with pytest.raises(MalformedMessageError):
        reply_reader(replace(HEADER, stage=stage.value))(sealed(stage, REQUESTS[stage]))


def test_another_version_is_stale() -> None:
    """The sentence says which one is wanted, and what to do; the vectors have more of them."""
    fields = {**sealed(Stage.JOIN, REQUESTS[Stage.JOIN]), "version": PROTOCOL_VERSION + 1}
    with pytest.raises(StaleMessageError, match=r"is not 1; use the same version of dubhe-flwr"):
        open_request(fields)
