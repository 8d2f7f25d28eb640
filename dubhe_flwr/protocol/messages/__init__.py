"""The bodies of the messages: one request and one reply for each stage.

All byte strings are big-endian and of a length that the parameters of the epoch fix, whatever a
client's labels are.
"""

from dubhe_flwr.protocol.messages.calibration import (
    CalibrateReply,
    CalibrateRequest,
    MomentsReply,
    MomentsRequest,
)
from dubhe_flwr.protocol.messages.check import CheckReply, CheckRequest
from dubhe_flwr.protocol.messages.join import (
    MAX_CANDIDATES,
    MAX_COVERAGE,
    MAX_LOCAL_SKEW,
    PUBLIC_KEY_BYTES,
    HelloReply,
    HelloRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
)
from dubhe_flwr.protocol.messages.registration import (
    KeygenReply,
    KeygenRequest,
    RegisterReply,
    RegisterRequest,
)
from dubhe_flwr.protocol.messages.require import MAX_DRAWS
from dubhe_flwr.protocol.messages.search import (
    ExpectReply,
    ExpectRequest,
    SearchReply,
    SearchRequest,
)
from dubhe_flwr.protocol.messages.selection import (
    DetermineReply,
    DetermineRequest,
    ParticipateReply,
    ParticipateRequest,
)
from dubhe_flwr.protocol.messages.stages import REPLIES, REQUESTS, Message, Stage

__all__ = [
    "MAX_CANDIDATES",
    "MAX_COVERAGE",
    "MAX_DRAWS",
    "MAX_LOCAL_SKEW",
    "PUBLIC_KEY_BYTES",
    "REPLIES",
    "REQUESTS",
    "CalibrateReply",
    "CalibrateRequest",
    "CheckReply",
    "CheckRequest",
    "DetermineReply",
    "DetermineRequest",
    "ExpectReply",
    "ExpectRequest",
    "HelloReply",
    "HelloRequest",
    "JoinReply",
    "JoinRequest",
    "JoinStatus",
    "KeygenReply",
    "KeygenRequest",
    "Message",
    "MomentsReply",
    "MomentsRequest",
    "ParticipateReply",
    "ParticipateRequest",
    "RegisterReply",
    "RegisterRequest",
    "SearchReply",
    "SearchRequest",
    "Stage",
]
