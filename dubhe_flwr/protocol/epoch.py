"""What the server knows of an epoch: who registered, and their ciphertexts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dubhe_flwr.errors import InvalidCiphertextError
from dubhe_flwr.he import PublicKey, homomorphic_sum, sealed_bytes
from dubhe_flwr.protocol.arrivals import Arrivals, ByPosition
from dubhe_flwr.protocol.blocks import Blocks
from dubhe_flwr.protocol.messages import (
    PUBLIC_KEY_BYTES,
    KeygenReply,
    KeygenRequest,
    RegisterRequest,
)
from dubhe_flwr.protocol.parameters import DISTRIBUTION, EpochParameters
from dubhe_flwr.protocol.registrations import Registrations
from dubhe_flwr.protocol.statements import recipients_digest
from dubhe_flwr.protocol.vectors import Vectors

__all__ = ["Enrolment", "Epoch", "Roster", "invalid_vectors"]


def invalid_vectors(
    public_key: PublicKey, vectors: Mapping[int, bytes], num_ciphertexts: int
) -> set[int]:
    """Return the nodes whose vector is no ciphertext under the key.

    One check of the sum covers all; only if it fails is each one looked at.
    """
    if not vectors:
        return set()
    try:
        homomorphic_sum(public_key, vectors.values(), num_ciphertexts)
    except InvalidCiphertextError:
        return {
            node_id
            for node_id, vector in vectors.items()
            if not public_key.is_valid(vector, num_ciphertexts)
        }
    return set()


@dataclass(frozen=True, kw_only=True)
class Roster:
    """Who is registered under which parameters, apart from anything encrypted.

    Parameters
    ----------
    first_round : int
        The round in which the epoch began.
    parameters : EpochParameters
        What was announced, checked.
    aliases : mapping of int to str
        Alias of each registered node, by node id in the order of the aliases.
    num_sums : mapping of int to int (default: none)
        Sums that each agent was given to decrypt.
    checkers : frozenset of int (default: none)
        Nodes that were given the sums of blocks, and are agents for nothing else.
    """

    first_round: int
    parameters: EpochParameters
    aliases: Mapping[int, str]
    num_sums: Mapping[int, int] = field(default_factory=dict)
    checkers: frozenset[int] = frozenset()

    @cached_property
    def registered(self) -> tuple[int, ...]:
        """Ids of the registered nodes, in the order of their aliases."""
        return tuple(self.aliases)

    @property
    def sums_per_agent(self) -> int:
        """Most sums that one agent may decrypt: fewer than half as many as there are clients."""
        return min(self.parameters.announced.max_sums, (len(self.aliases) - 1) // 2)

    @property
    def groups_per_round(self) -> int:
        """Most groups that are formed in a round; 0 where tries are determined."""
        announced = self.parameters.announced
        if not announced.group_size:
            return 0
        num_wanted = announced.num_participants // announced.group_size
        volunteers = announced.num_volunteers(len(self.aliases))
        return min(self.sums_per_agent, max(num_wanted, volunteers // announced.group_size))

    def sums_per_round(self, num_tries: int) -> int:
        """Return how many sums an agent decrypts to determine a round; 0 without any choice."""
        announced = self.parameters.announced
        num_sums, num_chosen = num_tries, 1
        if announced.group_size:
            num_sums = self.groups_per_round
            num_chosen = announced.num_participants // announced.group_size
        several = num_sums > num_chosen and len(self.aliases) - 1 > announced.num_participants
        return num_sums if several else 0


@dataclass(frozen=True, kw_only=True)
class Epoch(Roster):
    """One registration, complete.

    Parameters
    ----------
    identity : bytes
        Random identity of the epoch.
    asked : frozenset of int
        Ids of the nodes that were asked to join, whatever they said.
    declined : frozenset of int
        Ids of those that said no.
    public_key : PublicKey
        The epoch's Paillier modulus.
    overall_registry : bytes
        Encrypted ``R_A``.
    distributions : Vectors
        Encrypted ``p_l`` of each registered node, in the order of `registered`.
    candidate : int or None (default: None)
        The candidate whose thresholds hold; None as long as they are searched for.
    probabilities : bytes or None (default: None)
        Encrypted probability of each category; empty where nodes compute their own by eq. 6, and
        None as long as that is not settled.
    num_draws : int (default: 0)
        Draws that the nodes were asked for.
    refused : frozenset of int (default: none)
        Ids of registered nodes that answered the last draw with an error.
    """

    identity: bytes
    asked: frozenset[int]
    declined: frozenset[int] = frozenset()
    public_key: PublicKey
    overall_registry: bytes
    distributions: Vectors
    candidate: int | None = None
    probabilities: bytes | None = None
    num_draws: int = 0
    refused: frozenset[int] = frozenset()

    @property
    def is_settled(self) -> bool:
        """Whether it is settled how the nodes compute their probabilities."""
        return self.candidate is not None and self.probabilities is not None

    def sum_of_distributions(self, indices: Iterable[np.int64]) -> bytes:
        """Return the encrypted sum of ``p_l`` and ``||p_l||^2`` over some clients, by index."""
        vectors = (self.distributions[int(index)] for index in indices)
        num_ciphertexts = self.parameters.layout.num_ciphertexts(DISTRIBUTION)
        return homomorphic_sum(self.public_key, vectors, num_ciphertexts)


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
