"""An epoch in the making: who joins it, what its agent is asked, and what each node gets then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dubhe_flwr.he import PublicKey, sealed_bytes
from dubhe_flwr.protocol.arrivals import Arrivals, ByPosition
from dubhe_flwr.protocol.blocks import Blocks
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import (
    PUBLIC_KEY_BYTES,
    KeygenReply,
    KeygenRequest,
    RegisterRequest,
)
from dubhe_flwr.protocol.parameters import EpochParameters
from dubhe_flwr.protocol.registrations import Registrations
from dubhe_flwr.protocol.statements import recipients_digest

__all__ = ["Enrolment"]


@dataclass(frozen=True, slots=True)
class Enrolment:
    """An epoch in the making: nodes have joined, and an agent makes the key.

    Parameters
    ----------
    identity : bytes
        Random identity of the epoch.
    first_round : int
        The round in which it begins.
    parameters : EpochParameters
        What is announced, checked.
    asked : frozenset of int
        Ids of the nodes that are asked to join.
    declined : frozenset of int
        Ids of those that said no.
    aliases : mapping of int to str
        Alias of each node that joined, in the order of the aliases.
    public_keys : bytes
        Keys for sealed delivery of the nodes that joined, in that order.
    signatures : bytes
        Their signatures of these keys, or zeros.
    agents : tuple of int
        Nodes that may make the key, in the order in which to ask them.
    public_key : PublicKey or None
        The epoch's modulus, once there is one.
    blocks : Blocks or None
        What nodes registered, while an agent checks it.
    """

    identity: bytes
    first_round: int
    parameters: EpochParameters
    asked: frozenset[int]
    declined: frozenset[int] = frozenset()
    aliases: Mapping[int, str] = field(default_factory=dict)
    public_keys: bytes = b""
    signatures: bytes = b""
    agents: tuple[int, ...] = ()
    public_key: PublicKey | None = None
    blocks: Blocks | None = None

    def joined(self, arrivals: Arrivals) -> "Enrolment":
        """Return the enrolment of the nodes that joined."""
        aliases, public_keys, signatures = arrivals.in_order()
        return replace(self, aliases=aliases, public_keys=public_keys, signatures=signatures)

    def keygen_request(self) -> KeygenRequest:
        """Return what the agent is asked."""
        return KeygenRequest(self.public_keys, self.signatures)

    def refuse_keygen(self, reply: KeygenReply) -> str | None:
        """Return why a reply to that request cannot be used, or None."""
        key_bits = self.parameters.layout.key_bits
        if len(reply.sealed_keys) != sealed_bytes(key_bits) * len(self.aliases):
            return "wrong number of sealed keys"
        PublicKey.from_bytes(reply.modulus, key_bits)
        return None

    def register_requests(self, agent: int, reply: KeygenReply) -> Mapping[int, RegisterRequest]:
        """Return what each joined node is asked, with its own sealed key; made when looked at."""
        size = sealed_bytes(self.parameters.layout.key_bits)
        recipients = recipients_digest(self.public_keys)
        start = list(self.aliases).index(agent) * PUBLIC_KEY_BYTES
        agent_public_key = self.public_keys[start : start + PUBLIC_KEY_BYTES]

        def request(position: int) -> RegisterRequest:
            return RegisterRequest(
                modulus=reply.modulus,
                agent_public_key=agent_public_key,
                sealed_key=reply.sealed_keys[position * size : (position + 1) * size],
                recipients_digest=recipients,
                signature=reply.signature,
            )

        return ByPosition(self.aliases, request)

    def registered(self, registrations: Registrations) -> Epoch:
        """Return the epoch of the nodes that registered, all of them validly."""
        return Epoch(
            identity=self.identity,
            first_round=self.first_round,
            parameters=self.parameters,
            asked=self.asked,
            declined=self.declined,
            aliases=self._aliases_of(registrations.node_ids),
            public_key=self.paillier_key(),
            overall_registry=registrations.overall_registry,
            distributions=registrations.distributions,
            candidate=0 if len(self.parameters.candidates) == 1 else None,
            checkers=frozenset() if self.blocks is None else self.blocks.asked,
        )

    def _aliases_of(self, node_ids: Sequence[int]) -> Mapping[int, str]:
        if len(node_ids) == len(self.aliases):
            return self.aliases
        return {node_id: self.aliases[node_id] for node_id in node_ids}

    def paillier_key(self) -> PublicKey:
        """Return the epoch's modulus, which an agent has made."""
        assert self.public_key is not None  # noqa: S101 - set before nodes are asked to register
        return self.public_key
