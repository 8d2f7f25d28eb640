"""One valid message of each kind."""

from typing import Final

from dubhe_flwr.protocol.wire import messages as of
from dubhe_flwr.protocol.wire.codec import Fields
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import Message, Stage

RULE: Final = '{"reference_set": [1, 2, 10], "thresholds": {"1": 0.7, "2": 0.1}}'
REQUESTS: Final[dict[Stage, Message]] = {
    Stage.HELLO: of.HelloRequest(),
    Stage.JOIN: of.JoinRequest("paper", RULE, 20, 2048, 1000, 3, 1000, 500, 10, 4, 7),
    Stage.KEYGEN: of.KeygenRequest(bytes(range(96)), bytes(3 * 96)),
    Stage.REGISTER: of.RegisterRequest(
        of.DeliveredKey(b"\x81" * 256, bytes(32), b"sealed", b"\x0b" * 96), mean_examples=612.5
    ),
    Stage.SETTLE: of.SettleRequest(b"\x02" * 512, 100, 1),
    Stage.PARTICIPATE: of.ParticipateRequest(b"\x02" * 512, 100, 1, 7, 5, 10),
    Stage.DETERMINE: of.DetermineRequest(b"\x03" * 2560, (3, 2), (4, 4, 5, 4, 5)),
}
REPLIES: Final[dict[Stage, Message]] = {
    Stage.HELLO: of.HelloReply("client 3: Grüße", willing=True),
    Stage.JOIN: of.JoinReply(0, "3", 10, bytes(range(32)), 600, b"\x0b" * 96),
    Stage.KEYGEN: of.KeygenReply(b"\x81" * 256, b"sealed", b"\x0b" * 288),
    Stage.REGISTER: of.RegisterReply(b"\x04" * 512, b"\x05" * 512),
    Stage.SETTLE: of.SettleReply(b"\x0a" * 512, (0.7, 0.1)),
    Stage.PARTICIPATE: of.ParticipateReply(b"\x06" * 7, b"\x07"),
    Stage.DETERMINE: of.DetermineReply((0, 9, 3, 0, 1)),
}
MESSAGES: Final = [
    *((stage, message) for stage, message in REQUESTS.items()),
    *((stage, message) for stage, message in REPLIES.items()),
]
OPTIONAL: Final = {
    "group-size", "draw-seed", "signatures", "signature", "key.signature", "contribution",
    "num-examples", "mean-examples",
}  # fmt: skip
"""Fields that may be left out."""


def sealed(stage: Stage, message: Message) -> Fields:
    """Return a message with a header."""
    return Envelope(bytes(range(16)), stage.value, sequence=3).seal(message)
