"""What the server knows about an epoch: who joined, who registered, and the rounds drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import PrivacyBound
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.draws import read_draws
from dubhe_flwr.protocol.wire.messages import (
    JoinReply,
    ParticipateReply,
    ParticipateRequest,
    RuleSum,
)
from dubhe_flwr.protocol.wire.roster import Roster, alias_digest
from dubhe_flwr.protocol.wire.terms import Terms, terms_of


@dataclass(frozen=True, kw_only=True)
class JoinedNodes:
    """The terms of an epoch, and what became of each connected node. Its sets contain node ids."""

    identity: bytes  # random
    announced: JoinRequest
    num_classes: int  # ``C``, as reported by most nodes
    replies: Mapping[int, JoinReply]  # from the nodes that joined, ordered by alias
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
        replies, are_signed = self.replies.values(), self.announced.has_trusted_keys
        numbers = [reply.num_examples for reply in replies if reply.num_examples is not None]
        return Roster(
            b"".join(reply.public_key for reply in replies),
            tuple(numbers) or None,
            b"".join(alias_digest(reply.alias) for reply in replies) if are_signed else None,
            b"".join(reply.signature or b"" for reply in replies) if are_signed else None,
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


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """One round for which nodes have drawn; they are given by index in `Epoch.registered`."""

    decisions: NDArray[np.bool_]  # the nodes' own draws, shape (N, H)
    # Answered and willing, and eligible if the round is the one being planned; shape (N,).
    available: NDArray[np.bool_]
    unwilling: tuple[int, ...]  # nodes that will not train in this round


@dataclass(frozen=True, slots=True)
class DeterminedRound:
    """A round whose participants are known; nodes are given by index, in order."""

    tries: tuple[tuple[int, ...], ...]  # K clients each
    available: tuple[int, ...]  # nodes that may train, also in place of one that has left
    unwilling: tuple[int, ...]  # nodes that will not train in this round
    chosen: int = 0  # index of the try whose clients train

    def participants(
        self, registered: Sequence[int], eligible: frozenset[int], seed: int, server_round: int
    ) -> tuple[int, ...]:
        """Return the participants' node ids, ordered by alias, after replacing ineligible nodes.

        Replacements are drawn uniformly from the registered nodes that are willing and eligible.
        """
        chosen = self.tries[self.chosen]
        kept = [index for index in chosen if registered[index] in eligible]
        if len(kept) < len(chosen):
            rest = sorted(set(self.available).difference(chosen))
            others = [index for index in rest if registered[index] in eligible]
            missing = min(len(chosen) - len(kept), len(others))
            rng = generator(seed, "replace", server_round)
            kept = sorted([*kept, *rng.choice(others, missing, replace=False).tolist()])
        return tuple(registered[index] for index in kept)

    def willing(self, registered: Sequence[int], among: frozenset[int]) -> list[int]:
        """Return which of some nodes drew, and were willing and eligible at that time."""
        return [registered[i] for i in self.available if registered[i] in among]


def drawn_rounds(
    registered: Sequence[int], replies: Mapping[int, ParticipateReply], request: ParticipateRequest
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw; nodes that did not answer are not available."""
    told, declined = read_draws(list(replies.values()), request)
    row_of = {node_id: row for row, node_id in enumerate(registered)}
    rows = [row_of[node_id] for node_id in replies]
    decisions = np.zeros((len(registered), *told.shape[1:]), dtype=bool)
    available, unwilling = np.zeros((2, *decisions.shape[:2]), dtype=bool)
    decisions[rows], available[rows], unwilling[rows] = told, ~declined, declined
    return {
        request.first_round + offset: DrawnRound(
            decisions[:, offset],
            available[:, offset],
            tuple(np.flatnonzero(unwilling[:, offset]).tolist()),
        )
        for offset in range(request.num_rounds)
    }


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
