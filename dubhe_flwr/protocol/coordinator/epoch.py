"""The server's record of an epoch: its terms, registered nodes, and the sums given to agents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound
from dubhe_flwr.protocol.wire.announced import JoinRequest, sums_per_agent
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, Terms, terms_of


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """The terms of an epoch, and what became of each connected node. Its sets contain node ids."""

    identity: bytes  # random
    announced: JoinRequest
    num_classes: int  # ``C``, as reported by most nodes
    asked: frozenset[int]  # nodes that were asked to join, except those left out
    left_out: frozenset[int]  # not in the random sample, even if they were asked and agreed
    declined: frozenset[int]  # nodes that declined, or have another number of classes

    @property
    def terms(self) -> Terms:
        """The rule and the vault."""
        return terms_of(self.announced, self.num_classes)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """An epoch whose nodes have settled the rule and can draw."""

    invitation: Invitation
    first_round: int
    aliases: Mapping[int, str]  # of the registered nodes, by node id, ordered by alias
    public: bytes  # what the server needs to add up vectors
    # Hidden p_l of each registered node, in the order of `aliases`; empty without an agent.
    distributions: tuple[bytes, ...] = field(repr=False)
    num_registered: int  # clients covered by the sum of the registrations
    num_rule_sums: int  # sums that nodes read until the rule was settled
    finding: tuple[float, ...] = ()  # what the rule found
    num_sums: Mapping[int, int] = field(default_factory=dict)  # sums given to each agent so far
    rounds: Mapping[int, DeterminedRound] = field(default_factory=dict)  # current and later rounds
    failed: frozenset[int] = frozenset()  # nodes that answered the last draw with an error

    @property
    def identity(self) -> bytes:
        """The random identity, which all requests of the epoch carry."""
        return self.invitation.identity

    @property
    def announced(self) -> JoinRequest:
        """What the nodes were told when they were asked to join."""
        return self.invitation.announced

    @cached_property
    def terms(self) -> Terms:
        """The rule and the vault."""
        return self.invitation.terms

    @cached_property
    def registered(self) -> tuple[int, ...]:
        """Ids of the registered nodes, ordered by alias."""
        return tuple(self.aliases)

    def ids(self, indices: Iterable[int]) -> frozenset[int]:
        """Return the ids of the registered nodes at these indices."""
        return frozenset(self.registered[index] for index in indices)

    @property
    def privacy(self) -> PrivacyBound | None:
        """Bound on what the noisy sums reveal about one client; None if sums are exact."""
        population = self.terms.population(self.num_registered, self.num_registered)
        return self.terms.rule.privacy(population, self.num_rule_sums)

    @property
    def sums_per_agent(self) -> int:
        """Largest number of sums that one agent may decrypt."""
        return sums_per_agent(self.num_registered)

    def sum_of_distributions(self, indices: Iterable[int]) -> bytes:
        """Return the encrypted sum of ``p_l`` and ``||p_l||^2`` over the clients at `indices`."""
        vectors = (self.distributions[index] for index in indices)
        return self.terms.vault.add_up(self.public, [DISTRIBUTION], vectors)
