"""What the server knows of an epoch: who registered, and their ciphertexts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dubhe_flwr.errors import InvalidCiphertextError
from dubhe_flwr.he import PublicKey, homomorphic_sum
from dubhe_flwr.protocol.parameters import DISTRIBUTION, EpochParameters
from dubhe_flwr.protocol.vectors import Vectors

__all__ = ["Epoch", "Roster", "invalid_vectors"]


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
    moved : frozenset of int (default: none)
        Ids of registered nodes that said that their labels have moved since.
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
    moved: frozenset[int] = frozenset()

    @property
    def is_settled(self) -> bool:
        """Whether it is settled how the nodes compute their probabilities."""
        return self.candidate is not None and self.probabilities is not None

    def sum_of_distributions(self, indices: Iterable[np.int64]) -> bytes:
        """Return the encrypted sum of ``p_l`` and ``||p_l||^2`` over some clients, by index."""
        vectors = (self.distributions[int(index)] for index in indices)
        num_ciphertexts = self.parameters.layout.num_ciphertexts(DISTRIBUTION)
        return homomorphic_sum(self.public_key, vectors, num_ciphertexts)
