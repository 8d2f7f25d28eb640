"""An epoch: who registered under which terms, what they encrypted and drew, what was spent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound
from dubhe_flwr.protocol.wire.messages import JoinRequest, SettleRequest, sums_per_agent
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, Terms, terms_of


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """Who was asked to join an epoch, and to what terms. Its sets are of node ids."""

    identity: bytes  # random
    announced: JoinRequest
    num_classes: int  # ``C``, what most nodes said
    asked: frozenset[int]
    left_out: frozenset[int]  # by lot: not asked, or not in the sums
    declined: frozenset[int]  # those that said no, or have other classes

    @property
    def terms(self) -> Terms:
        """Rule and vault."""
        return terms_of(self.announced, self.num_classes)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One registration, settled."""

    invitation: Invitation
    first_round: int  # in which it began
    aliases: Mapping[int, str]  # of each registered node, by node id in the order of the aliases
    public: bytes  # what the server needs to add up
    # Hidden p_l of each registered node, in that order; empty where there is no agent.
    distributions: tuple[bytes, ...] = field(repr=False)
    last_sum: SettleRequest = field(repr=False)  # of the rule; nodes are given it when they draw
    num_registered: int  # clients that the sum of the registrations covers
    finding: tuple[float, ...] = ()  # of the rule
    num_draws: int = 0  # spent of the budget of the nodes
    num_sums: Mapping[int, int] = field(default_factory=dict)  # that each agent was given
    rounds: Mapping[int, DeterminedRound] = field(default_factory=dict)  # this one and those ahead
    failed: frozenset[int] = frozenset()  # nodes that answered the last draw with an error

    @property
    def identity(self) -> bytes:
        """The random identity that all requests of the epoch carry."""
        return self.invitation.identity

    @property
    def announced(self) -> JoinRequest:
        """What the nodes were told of it."""
        return self.invitation.announced

    @cached_property
    def terms(self) -> Terms:
        """Rule and vault."""
        return self.invitation.terms

    @cached_property
    def registered(self) -> tuple[int, ...]:
        """Ids of the registered nodes, in the order of their aliases."""
        return tuple(self.aliases)

    def ids(self, indices: Iterable[int]) -> frozenset[int]:
        """Return the ids of some registered nodes, given by index."""
        return frozenset(self.registered[index] for index in indices)

    @property
    def privacy(self) -> PrivacyBound | None:
        """What the noisy sums tell of one client at worst; None where sums are exact."""
        volunteers = self.announced.num_volunteers(self.num_registered)
        num_sums = self.last_sum.exchange + 1
        return self.terms.rule.privacy(self.invitation.num_classes, volunteers, num_sums)

    @property
    def sums_per_agent(self) -> int:
        """Most sums that one agent may decrypt."""
        return sums_per_agent(self.num_registered)

    def sums_per_round(self, num_draws: int) -> int:
        """Return how many sums an agent decrypts to determine a round; 0 without any choice."""
        announced = self.announced
        number = announced.determination.num_selections(
            num_draws,
            announced.num_participants,
            announced.num_volunteers(self.num_registered),
            covered=announced.most_covered(self.num_registered),
            sums=self.sums_per_agent,
        )
        others = len(self.aliases) - 1
        has_choice = number > announced.num_wanted and others > announced.num_participants
        return number if has_choice else 0

    @property
    def draws_left(self) -> int:
        """Draws that the budget of the nodes leaves."""
        return self.announced.max_draws - self.num_draws

    def draws_charged(self, num_draws: int) -> int:
        """Return what some draws cost of the budget of the nodes."""
        return self.announced.draws_charged(num_draws, self.num_registered)

    def sum_of_distributions(self, indices: Iterable[np.int64]) -> bytes:
        """Return the encrypted sum of ``p_l`` and ``||p_l||^2`` over some clients, by index."""
        vectors = (self.distributions[int(index)] for index in indices)
        return self.terms.vault.adder(self.public, DISTRIBUTION).add_up(vectors)
