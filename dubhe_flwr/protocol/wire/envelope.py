"""The header of every message, and the two functions that open what came over the network.

What does not fit the header that is expected is stale or foreign, and refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dubhe_flwr.errors import MalformedMessageError, StaleMessageError
from dubhe_flwr.protocol.wire.codec import Fields, decode, encode
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS, Message

PROTOCOL_VERSION: Final = 1
PROTOCOL_TAG: Final = f"dubhe/{PROTOCOL_VERSION}"
"""What every signature and sealed key is bound to, besides its epoch."""
EPOCH_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every message carries beside its body.

    The identity of the epoch is random; the sequence is the number of the server's batch within
    the run, which a reply repeats.
    """

    epoch: bytes
    stage: str
    sequence: int
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
        """Return header and body as flat fields."""
        return encode(self) | encode(body)


_HEADER: Final = ("epoch", "stage", "sequence", "version")


def _open(
    fields: Mapping[str, object], bodies: Mapping[str, type[Message]]
) -> tuple[Envelope, Message]:
    envelope = decode(Envelope, fields, len(fields) - len(_HEADER))
    return envelope, decode(bodies[envelope.stage], fields, len(_HEADER))


def open_request(fields: Mapping[str, object]) -> tuple[Envelope, Message]:
    """Parse what a node received.

    It is a `MalformedMessageError` if the fields are not a request, and a `StaleMessageError` if
    the request is of another version of the protocol.
    """
    return _open(fields, REQUESTS)


def reply_reader(expected: Envelope) -> Callable[[Mapping[str, object]], Message]:
    """Return a function that parses replies to a request with that header, for very many of them.

    It raises a `MalformedMessageError` if the fields are not a reply, and a `StaleMessageError` if
    the reply answers another request, epoch or version.
    """
    header, kind = encode(expected).items(), REPLIES[expected.stage]

    def read(fields: Mapping[str, object]) -> Message:
        # A comparison stands for parsing the header anew each time; True and 1.0 are equal to 1.
        is_int = type(fields.get("sequence")) is type(fields.get("version")) is int
        if not (is_int and header <= fields.items()):
            _open(fields, REPLIES)
            raise StaleMessageError("The reply belongs to another epoch, stage or request.")
        return decode(kind, fields, len(_HEADER))

    return read
