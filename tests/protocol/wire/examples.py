"""One valid message of each kind, from the vectors."""

from typing import Final

from vectors.exchange import messages
from vectors.inputs import untyped
from vectors.reference import fields_of

from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.wire.codec import decode
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS, Message

CASES: Final = {case["name"]: case for case in messages()}


def example(name: str) -> Message:
    """Return a message such as `join request`."""
    kinds = REQUESTS if CASES[name]["kind"] == "request" else REPLIES
    return decode(kinds[Stage(CASES[name]["stage"])], fields_of(untyped(CASES[name]["values"])))


def sealed(name: str) -> Fields:
    """Return the fields of a message with its header."""
    return untyped(CASES[name]["fields"])
