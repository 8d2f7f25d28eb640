"""The protocol without input or output: messages, the node's session, the server's coordinator."""

from dubhe_flwr.protocol.codec import Fields, Scalar, decode, encode, wire_size
from dubhe_flwr.protocol.coordinator import Coordinator
from dubhe_flwr.protocol.envelope import PROTOCOL_VERSION
from dubhe_flwr.protocol.messages import Stage
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Plan, Replies, StageReport
from dubhe_flwr.protocol.policy import NodePolicy
from dubhe_flwr.protocol.saved import check_keys, from_json
from dubhe_flwr.protocol.selector import Selector, alias_order
from dubhe_flwr.protocol.session import ClientSession
from dubhe_flwr.protocol.session_state import SessionState
from dubhe_flwr.protocol.settings import OnFailure, Settings
from dubhe_flwr.protocol.state import CoordinatorState

__all__ = [
    "PROTOCOL_VERSION",
    "Batch",
    "ClientSession",
    "Coordinator",
    "CoordinatorState",
    "Fields",
    "NodeFailure",
    "NodePolicy",
    "OnFailure",
    "Plan",
    "Replies",
    "Scalar",
    "Selector",
    "SessionState",
    "Settings",
    "Stage",
    "StageReport",
    "alias_order",
    "check_keys",
    "decode",
    "encode",
    "from_json",
    "wire_size",
]
