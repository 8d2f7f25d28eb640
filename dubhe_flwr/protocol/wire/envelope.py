"""The header of every message, and the functions that parse requests and replies.

A message whose header differs from the expected one is stale or foreign, and is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dubhe_flwr.errors import MalformedMessageError, StaleMessageError
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.codec import Fields, Message, decode, encode
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS

PROTOCOL_VERSION: Final = 1
PROTOCOL_TAG: Final = f"dubhe/{PROTOCOL_VERSION}"
"""Every signature and sealed key is bound to this tag and its epoch."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The header that every message carries besides its body; a reply repeats its request's."""

    epoch: bytes  # its random identity
    stage: str
    sequence: int  # counts the server's batches within a run
    version: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        if self.version != PROTOCOL_VERSION:
            raise StaleMessageError(
                f"Protocol version {self.version} is not {PROTOCOL_VERSION}; use the same version "
                "of dubhe-flwr on the server and on all nodes."
            )
        known = self.stage in REQUESTS
        if not (known and len(self.epoch) == EPOCH_ID_BYTES and self.sequence >= 1):
            raise MalformedMessageError("The header names no known stage, epoch id or batch.")

    def seal(self, body: Message) -> Fields:
        """Return the header and a body as flat fields."""
        return encode(self) | encode(body)


_HEADER: Final = ("epoch", "stage", "sequence", "version")


def _read(
    fields: Mapping[str, object], bodies: Mapping[str, type[Message]]
) -> tuple[Envelope, Message]:
    envelope = decode(Envelope, fields, len(fields) - len(_HEADER))
    return envelope, decode(bodies[envelope.stage], fields, len(_HEADER))


def read_request(fields: Mapping[str, object]) -> tuple[Envelope, Message]:
    """Parse a request that a node received.

    Raises `MalformedMessageError` if the fields are not a request, and `StaleMessageError` if the
    request has another protocol version.
    """
    return _read(fields, REQUESTS)


def read_reply(expected: Envelope, fields: Mapping[str, object]) -> Message:
    """Parse the reply to a request with this header.

    Raises `MalformedMessageError` if the fields are not a reply, and `StaleMessageError` if the
    reply belongs to another request, epoch or version.
    """
    envelope, reply = _read(fields, REPLIES)
    if envelope != expected:
        raise StaleMessageError("The reply belongs to another epoch, stage or request.")
    return reply
