"""The protocol, without any I/O.

`Coordinator` is the server's state machine, `ClientSession` the node's; `wire` holds the messages
between them. Each epoch runs one of the `rules` on one of the `vaults`. The adapters send and
receive. "Following the label counts" in `docs/explanation/protocol.md` walks through the modules.
"""

from dubhe_flwr.protocol.plan import Batch, NodeFailure, Plan, Replies, StageReport
from dubhe_flwr.protocol.wire.codec import Fields
from dubhe_flwr.protocol.wire.messages import Stage

__all__ = ["Batch", "Fields", "NodeFailure", "Plan", "Replies", "Stage", "StageReport"]
