"""Tests of the header, and of the two functions that parse incoming messages."""

from typing import Any

import pytest
from protocol.wire.examples import sealed
from vectors.inputs import EPOCH

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Stage
from dubhe_flwr.protocol.wire.envelope import Envelope, open_request, reply_reader


@pytest.mark.parametrize("stage", list(Stage))
def test_a_request_is_no_reply(stage: Stage) -> None:
    """The two directions of a stage are not mistaken for each other."""
    request: Any = sealed(f"{stage} request")
    with pytest.raises(MalformedMessageError):
        open_request(sealed(f"{stage} reply"))
    with pytest.raises(MalformedMessageError):
        reply_reader(Envelope(EPOCH, stage.value, request["sequence"]))(request)
