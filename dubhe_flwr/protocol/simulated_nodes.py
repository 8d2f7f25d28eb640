"""Answers for the nodes of a simulation in the clear, within the server's process."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dubhe_flwr.errors import ProtocolError
from dubhe_flwr.protocol.node.enter import after_join
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Replies
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.codec import Fields
from dubhe_flwr.protocol.wire.envelope import read_reply
from dubhe_flwr.protocol.wire.terms import MAX_KEY_BITS


class SimulatedNodes:
    """Answers for the nodes that reported their label counts when they joined.

    These nodes have nothing to hide, and sending a Flower message takes longer than computing its
    answer. A node with a `willing` function has to be asked in each round. So it does not report
    its label counts, and answers for itself.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, ClientSession] = {}

    def exchange(self, batch: Batch, send: Callable[[Batch], Replies]) -> Replies:
        """Return the replies to a batch; requests that are not answered here are sent."""
        epoch, fields, sessions = batch.header.epoch, batch.fields, self._sessions
        local = {n: s for n, s in sessions.items() if n in fields and s.memory.epoch == epoch}
        if not local:
            received = send(batch)
            if any(isinstance(r, JoinRequest) and r.in_the_clear for r in batch.requests.values()):
                self._take_up(batch, received)
            return received
        left = {n: request for n, request in batch.requests.items() if n not in local}
        received = send(Batch(batch.header, left)) if left else {}
        return {**received, **{n: answer(s, fields[n]) for n, s in local.items()}}

    def _take_up(self, batch: Batch, received: Replies) -> None:
        """Start a session, already joined, for each node that reported its label counts."""
        header = batch.header
        for node_id, fields in received.items():
            if isinstance(fields, NodeFailure):
                continue
            with suppress(ProtocolError):  # the server drops such a reply as well
                reply: Any = read_reply(header, fields)  # the header fixes the kind
                if reply.label_counts is not None:
                    request: Any = batch.requests[node_id]
                    before = self._sessions.get(node_id)
                    kept = Memory() if before is None else before.memory
                    memory = after_join(kept, header, request, reply.label_counts)
                    policy = policy_without_limits(reply.label_counts, reply.alias)
                    self._sessions[node_id] = ClientSession(policy, memory)


def policy_without_limits(label_counts: Sequence[int], alias: str) -> NodePolicy:
    """Return the policy of a simulated node whose limits are checked elsewhere, if at all."""
    return NodePolicy(
        label_counts=lambda: label_counts,
        alias=alias,
        simulated=True,
        min_cohort=1,
        min_key_bits=1,
        max_key_bits=MAX_KEY_BITS,
    )


def answer(session: ClientSession, request: Fields) -> Fields | NodeFailure:
    """Return a node's reply, or a `NodeFailure` if it refuses."""
    try:
        return session.handle(request)
    except ProtocolError as error:
        return NodeFailure.of(error)
