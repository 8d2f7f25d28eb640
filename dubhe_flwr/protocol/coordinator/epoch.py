"""What the server knows about an epoch: who joined, who registered, and the settled epoch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.messages import JoinReply, RuleSum
from dubhe_flwr.protocol.wire.roster import Roster, alias_digest
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, Terms, terms_of


@dataclass(frozen=True, kw_only=True)
class JoinedNodes:
    """The terms of an epoch, and what became of each connected node. Its sets contain node ids."""

    identity: bytes  # random
    announced: JoinRequest
    num_classes: int  # ``C``, as reported by most nodes
    replies: Mapping[int, JoinReply]  # of the nodes that joined, ordered by alias
    # The members of the committee, in order; fewer than three if there are too few candidates.
    committee: tuple[int, ...]
    asked: frozenset[int]  # nodes that were asked to join, except those left out
    left_out: frozenset[int]  # not in the random sample, even if they were asked and agreed
    declined: frozenset[int]  # nodes that declined, or have another number of classes

    @property
    def terms(self) -> Terms:
        """The rule and the vault."""
        return terms_of(self.announced, self.num_classes)

    @property
    def is_continued(self) -> bool:
        """Whether the rule starts from the state of the last epoch."""
        return self.announced.continues is not None

    @cached_property
    def roster(self) -> Roster:
        """What the openers are shown; has signatures if the server knows the keys."""
        replies = self.replies.values()
        numbers = [reply.num_examples for reply in replies if reply.num_examples is not None]
        roster = Roster(b"".join(reply.public_key for reply in replies), tuple(numbers) or None)
        if not self.announced.has_trusted_keys:
            return roster
        return replace(
            roster,
            alias_digests=b"".join(alias_digest(reply.alias) for reply in replies),
            signatures=b"".join(reply.signature or b"" for reply in replies),
        )


@dataclass(frozen=True)
class RegisteredNodes:
    """The nodes that registered and have answered every exchange since."""

    joined: JoinedNodes  # all nodes that joined, including nodes that dropped out since
    public: bytes  # what the server needs to add up vectors
    # The registered nodes, ordered by alias, and the hidden p_l of each; b"" without an agent.
    distributions: Mapping[int, bytes] = field(repr=False)
    num_registered: int  # clients covered by the sum of the registrations
    last_sum: RuleSum  # the sum of the nodes' last contributions, to send to them next
    previous: bytes = b""  # the sum before, as the nodes read it


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """An epoch whose nodes have settled the rule and can draw."""

    registration: RegisteredNodes  # those that settled the rule
    first_round: int
    finding: tuple[float, ...] = ()  # what the rule found
    num_sums: Mapping[int, int] = field(default_factory=dict)  # sums given to each agent so far
    rounds: Mapping[int, DeterminedRound] = field(default_factory=dict)  # current and later rounds
    failed: frozenset[int] = frozenset()  # nodes that answered the last draw with an error

    @property
    def identity(self) -> bytes:
        """The random identity, which all requests of the epoch carry."""
        return self.registration.joined.identity

    @property
    def announced(self) -> JoinRequest:
        """What the nodes were told when they were asked to join."""
        return self.registration.joined.announced

    @property
    def terms(self) -> Terms:
        """The rule and the vault."""
        return self.registration.joined.terms

    @cached_property
    def registered(self) -> tuple[int, ...]:
        """Ids of the registered nodes, ordered by alias."""
        return tuple(self.registration.distributions)

    @property
    def num_registered(self) -> int:
        """Number of clients covered by the sum of the registrations."""
        return self.registration.num_registered

    def ids(self, indices: Iterable[int]) -> frozenset[int]:
        """Return the ids of the registered nodes at these indices."""
        return frozenset(self.registered[index] for index in indices)

    @property
    def privacy(self) -> PrivacyBound | None:
        """Bound on what the noisy sums reveal about one client; None if sums are exact."""
        population = self.terms.population(self.num_registered, self.num_registered)
        return self.terms.rule.privacy(population, self.registration.last_sum.number + 1)

    def sum_of_distributions(self, indices: Iterable[int]) -> bytes:
        """Return the encrypted sum of ``p_l`` and ``||p_l||^2`` over the clients at `indices`."""
        told, registered = self.registration, self.registered
        vectors = (told.distributions[registered[index]] for index in indices)
        return self.terms.vault.add_up(told.public, [DISTRIBUTION], vectors)
