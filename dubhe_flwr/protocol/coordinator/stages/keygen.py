"""The stage `keygen`: an agent makes the epoch's Paillier key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.stages.join import Join, JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.refused import start_afresh
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

_MAX_AGENTS: Final = 3  # agents to ask, one after another, before giving up


@dataclass(frozen=True)
class ReadyToRegister:
    """Nodes can register: the requests carry each node's sealed key."""

    joined: JoinedNodes
    agents: tuple[int, ...]  # agents to ask next, if nodes cannot open their keys
    public: bytes  # what the server needs to add up vectors
    requests: Mapping[int, RegisterRequest]


@dataclass(frozen=True)
class Keygen(Awaiting):
    """An agent was asked for the key."""

    joined: JoinedNodes
    agents: tuple[int, ...]  # agents to ask next, if this one does not answer

    @classmethod
    def begin(
        cls, context: Context, joined: JoinedNodes
    ) -> tuple[Context, "Keygen | ReadyToRegister | Join"]:
        """Ask the first agent for a key, and for the state of the epoch continued, if any.

        A simulation in the clear needs no key.
        """
        if joined.invitation.announced.in_the_clear and not joined.is_continued:
            # Use up a sequence number, as an encrypted simulation does, so that the next join
            # request has the same number in both.
            return context.counted(), _without_key(joined)
        agents = context.agents(tuple(joined.replies))[:_MAX_AGENTS]
        return cls.ask(context, joined, agents)

    @classmethod
    def ask(
        cls, context: Context, joined: JoinedNodes, agents: tuple[int, ...]
    ) -> tuple[Context, "Keygen | Join"]:
        """Ask the first of these agents; keep the rest in case it fails."""
        if joined.is_continued:
            agents = tuple(node_id for node_id in agents if node_id in context.run.settled)
            # A simulation in the clear continues an epoch only where a committee could.
            if len(agents) < max(1, joined.invitation.terms.vault.num_members):
                return start_afresh(context)
        if not agents:
            context.give_up("No agent made a key; see nodes' logs.", None)
        agent, *others = agents
        request = KeygenRequest(joined.roster)
        context, batch = context.batch(joined.invitation.identity, Stage.KEYGEN, {agent: request})
        return context, cls(batch, joined, tuple(others))

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, "ReadyToRegister | Keygen | Join"]:
        """Take the key, or ask another agent."""
        joined, announced = self.joined, self.joined.invitation.announced
        num_joined, key_bits = len(joined.replies), announced.key_bits

        def refuse(_node_id: int, reply: KeygenReply) -> str | None:
            if bool(reply.state) != joined.is_continued:
                return "no state of the last epoch"
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
            context = context.noted("An agent made no key; another one is asked.")
            return self.ask(context, joined, self.agents)
        ((agent, reply),) = accepted.items()
        if announced.in_the_clear:
            return context, _without_key(joined, self.agents, reply.state)
        sealed = split(reply.sealed_keys, sealed_bytes(key_bits))
        signed = split(reply.signatures or b"", SIGNATURE_BYTES)
        of_agent, mean_examples = joined.replies[agent].public_key, joined.roster.mean_examples
        requests = {
            node_id: RegisterRequest(
                num_joined,
                DeliveredKey(reply.modulus, of_agent, key, next(signed, None)),
                mean_examples=mean_examples,
                state=reply.state,
            )
            for node_id, key in zip(joined.replies, sealed, strict=True)
        }
        return context, ReadyToRegister(joined, self.agents, reply.modulus, requests)


def _without_key(
    joined: JoinedNodes, agents: tuple[int, ...] = (), state: bytes | None = None
) -> ReadyToRegister:
    """Return the requests of a simulation in the clear."""
    num_joined, mean_examples = len(joined.replies), joined.roster.mean_examples
    request = RegisterRequest(num_joined, mean_examples=mean_examples, state=state)
    return ReadyToRegister(joined, agents, b"", dict.fromkeys(joined.replies, request))
