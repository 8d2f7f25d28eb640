"""The protocol without input or output: messages, the node's session, the server's coordinator."""

from dubhe_flwr.protocol.coordinator.context import CoordinatorState
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.node.policy import Limits, NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Plan, Replies, StageReport
from dubhe_flwr.protocol.replies import accept_replies, alias_order
from dubhe_flwr.protocol.saved import check_keys, from_json
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.settings import OnFailure, Settings
from dubhe_flwr.protocol.wire.codec import Fields, Scalar, decode, encode, wire_size
from dubhe_flwr.protocol.wire.envelope import PROTOCOL_VERSION
from dubhe_flwr.protocol.wire.messages import Stage

__all__ = [
    "PROTOCOL_VERSION",
    "Batch",
    "ClientSession",
    "Coordinator",
    "CoordinatorState",
    "Fields",
    "Limits",
    "Memory",
    "NodeFailure",
    "NodePolicy",
    "OnFailure",
    "Plan",
    "Replies",
    "Scalar",
    "Selector",
    "Settings",
    "Stage",
    "StageReport",
    "accept_replies",
    "alias_order",
    "check_keys",
    "decode",
    "encode",
    "from_json",
    "wire_size",
]
