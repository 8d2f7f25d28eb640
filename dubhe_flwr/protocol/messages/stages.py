"""The stages of the protocol, and the body of the request and of the reply of each."""

from enum import StrEnum
from typing import Final

from dubhe_flwr.protocol.messages.calibration import (
    CalibrateReply,
    CalibrateRequest,
    MomentsReply,
    MomentsRequest,
)
from dubhe_flwr.protocol.messages.check import CheckReply, CheckRequest
from dubhe_flwr.protocol.messages.join import HelloReply, HelloRequest, JoinReply, JoinRequest
from dubhe_flwr.protocol.messages.registration import (
    KeygenReply,
    KeygenRequest,
    RegisterReply,
    RegisterRequest,
)
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

__all__ = ["REPLIES", "REQUESTS", "Message", "Stage"]


class Stage(StrEnum):
    """The stages, in the order of a run; the message type in Flower is ``evaluate.dubhe_STAGE``."""

    HELLO = "hello"
    JOIN = "join"
    KEYGEN = "keygen"
    REGISTER = "register"
    CHECK = "check"
    EXPECT = "expect"
    SEARCH = "search"
    MOMENTS = "moments"
    CALIBRATE = "calibrate"
    PARTICIPATE = "participate"
    DETERMINE = "determine"


Message = (
    HelloRequest
    | HelloReply
    | JoinRequest
    | JoinReply
    | KeygenRequest
    | KeygenReply
    | RegisterRequest
    | RegisterReply
    | CheckRequest
    | CheckReply
    | ExpectRequest
    | ExpectReply
    | SearchRequest
    | SearchReply
    | MomentsRequest
    | MomentsReply
    | CalibrateRequest
    | CalibrateReply
    | ParticipateRequest
    | ParticipateReply
    | DetermineRequest
    | DetermineReply
)

_BODIES: Final[dict[Stage, tuple[type[Message], type[Message]]]] = {
    Stage.HELLO: (HelloRequest, HelloReply),
    Stage.JOIN: (JoinRequest, JoinReply),
    Stage.KEYGEN: (KeygenRequest, KeygenReply),
    Stage.REGISTER: (RegisterRequest, RegisterReply),
    Stage.CHECK: (CheckRequest, CheckReply),
    Stage.EXPECT: (ExpectRequest, ExpectReply),
    Stage.SEARCH: (SearchRequest, SearchReply),
    Stage.MOMENTS: (MomentsRequest, MomentsReply),
    Stage.CALIBRATE: (CalibrateRequest, CalibrateReply),
    Stage.PARTICIPATE: (ParticipateRequest, ParticipateReply),
    Stage.DETERMINE: (DetermineRequest, DetermineReply),
}
REQUESTS: Final[dict[str, type[Message]]] = {
    stage: request for stage, (request, _) in _BODIES.items()
}
REPLIES: Final[dict[str, type[Message]]] = {stage: reply for stage, (_, reply) in _BODIES.items()}
