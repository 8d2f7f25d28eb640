"""The stage `keygen`: an agent makes the epoch's Paillier key."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.refused import OpenersLost, start_afresh
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.messages import (
    DeliveredKey,
    KeygenReply,
    KeygenRequest,
    RegisterRequest,
    Stage,
)
from dubhe_flwr.protocol.wire.roster import split


@dataclass(frozen=True)
class ReadyToRegister:
    """Nodes can register: the requests carry each node's sealed key."""

    joined: JoinedNodes
    # The nodes that made the keys; none in a simulation in the clear that starts afresh.
    openers: tuple[int, ...]
    public: bytes  # what the server needs to add up vectors
    requests: Mapping[int, RegisterRequest]


@dataclass(frozen=True)
class Keygen(Awaiting):
    """An agent was asked for the key."""

    joined: JoinedNodes
    agent: int

    @classmethod
    def begin(
        cls, context: Context, joined: JoinedNodes
    ) -> tuple[Context, "Keygen | ReadyToRegister | Join"]:
        """Ask the first agent for a key, and for the state of the epoch continued, if any.

        A simulation in the clear needs no key.
        """
        if joined.announced.in_the_clear and not joined.is_continued:
            # Use up a sequence number, as an encrypted simulation does, so that the next join
            # request has the same number in both.
            requests = dict.fromkeys(joined.replies, joined.register_request(None))
            return context.counted(), ReadyToRegister(joined, (), b"", requests)
        agents = context.agents(tuple(joined.replies))
        if joined.is_continued:
            agents = [node_id for node_id in agents if node_id in context.run.settled]
            # A simulation in the clear continues an epoch only where a committee could.
            if len(agents) < max(1, joined.terms.num_members):
                return start_afresh(context)
        asked = {agents[0]: KeygenRequest(joined.roster)}
        context, batch = context.batch(joined.identity, Stage.KEYGEN, asked)
        return context, cls(batch, joined, agents[0])

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, ReadyToRegister | OpenersLost]:
        """Take the key."""
        joined, announced = self.joined, self.joined.announced
        num_joined, key_bits = len(joined.replies), announced.key_bits

        def refuse(_node_id: int, reply: KeygenReply) -> str | None:
            if bool(reply.state) != joined.is_continued:
                return "no state of the last period"
            if announced.in_the_clear:
                return None
            if len(reply.sealed_keys) != sealed_bytes(key_bits) * num_joined:
                return "wrong number of sealed keys"
            if len(reply.signatures or b"") not in {0, SIGNATURE_BYTES * num_joined}:
                return "wrong number of signatures"
            PublicKey.from_bytes(reply.modulus, key_bits)
            return None

        accepted, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        if not accepted:
            return context, OpenersLost((self.agent,))
        reply = accepted[self.agent]
        request = joined.register_request(reply.state)
        if announced.in_the_clear:
            requests = dict.fromkeys(joined.replies, request)
            return context, ReadyToRegister(joined, (self.agent,), b"", requests)
        sealed = split(reply.sealed_keys, sealed_bytes(key_bits))
        signed = split(reply.signatures or b"", SIGNATURE_BYTES)
        of_agent = joined.replies[self.agent].public_key
        requests = {
            node_id: replace(
                request, key=DeliveredKey(reply.modulus, of_agent, key, next(signed, None))
            )
            for node_id, key in zip(joined.replies, sealed, strict=True)
        }
        return context, ReadyToRegister(joined, (self.agent,), reply.modulus, requests)
