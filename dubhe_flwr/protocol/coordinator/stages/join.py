"""The stage `join`: the server asks nodes to take part in a new epoch."""

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he.signing import SIGNATURE_BYTES, SIGNER_BYTES, TrustedKeys, is_signed_by
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context, Run
from dubhe_flwr.protocol.coordinator.epoch import Invitation
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import ALIAS_OF_ANOTHER, accept_replies, alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Roster,
    Stage,
)
from dubhe_flwr.protocol.wire.roster import alias_digest
from dubhe_flwr.protocol.wire.statements import join_statement

_EACH_CLASS: Final = (
    "label_counts must return one count for each class, including classes without samples, and not "
    "the labels themselves; count_labels(labels, num_classes) makes these counts, and np.bincount "
    "needs minlength=num_classes for them."
)


@dataclass(frozen=True, kw_only=True)
class JoinedNodes:
    """The nodes that joined an epoch, with their replies, ordered by alias."""

    invitation: Invitation
    replies: Mapping[int, JoinReply]
    aliases: Mapping[int, str]  # the nodes' names from now on, in the same order
    were_all_asked: bool  # whether every connected node was asked to join
    is_corrected: bool = False  # whether the committee objected to some nodes

    @property
    def is_continued(self) -> bool:
        """Whether the rule starts from the state of the last epoch."""
        return self.invitation.announced.continues is not None

    def without(self, nodes: Collection[int]) -> "JoinedNodes":
        """Return the epoch without some nodes, as if they had declined."""
        invitation = self.invitation
        return replace(
            self,
            invitation=replace(invitation, declined=invitation.declined.union(nodes)),
            replies={n: reply for n, reply in self.replies.items() if n not in nodes},
            aliases={n: alias for n, alias in self.aliases.items() if n not in nodes},
        )

    @cached_property
    def roster(self) -> Roster:
        """What the agent or committee is shown; has signatures only if most nodes signed."""
        replies, unsigned = self.replies.values(), bytes(SIGNATURE_BYTES)
        numbers = [reply.num_examples for reply in replies if reply.num_examples is not None]
        roster = Roster(b"".join(reply.public_key for reply in replies), tuple(numbers) or None)
        if not _most_signed(replies):
            return roster
        return replace(
            roster,
            alias_digests=b"".join(alias_digest(reply.alias) for reply in replies),
            signatures=b"".join(reply.signature or unsigned for reply in replies),
        )


@dataclass(frozen=True)
class Join(Awaiting):
    """Nodes were asked to join; at most `number` of them register."""

    announced: JoinRequest
    drawn: tuple[int, ...]  # all connected nodes, in the order in which they may register
    number: int

    @classmethod
    def begin(cls, context: Context, *, asks_all: bool = False) -> tuple[Context, "Join"]:
        """Ask the connected nodes, or a random sample of them, to join a new epoch.

        With `asks_all`, more nodes are asked than register, so that the server learns which of them
        may be in the committee.
        """
        present = context.in_order(context.round.present)
        num_refused = context.run.num_refused_epochs
        number = _num_asked(context.settings, len(present), num_refused)
        lots = generator(context.run.seed, "sample", context.server_round).permutation(len(present))
        drawn = _by_turn(context.run, [present[lot] for lot in lots])
        asked = sorted(drawn if asks_all else drawn[:number])
        if num_refused:
            context = context.noted(
                f"Epochs refused in a row: {num_refused}; the next one asks {number} of "
                f"{len(present)} nodes, drawn at random."
            )
        # An epoch that fails is not continued, and the next one starts afresh.
        announced = context.settings.announced(context.run.seed)
        announced = replace(announced, continues=context.run.continued)
        context = replace(context, run=replace(context.run, continued=None))
        identity = secrets.token_bytes(EPOCH_ID_BYTES)
        context, batch = context.batch(identity, Stage.JOIN, dict.fromkeys(asked, announced))
        return context, cls(batch, announced, tuple(drawn), number)

    def take(self, context: Context, replies: Replies) -> tuple[Context, JoinedNodes]:
        """Take the nodes that join and agree on the number of classes."""
        identity = self.batch.header.epoch
        seen: set[bytes] = set()
        signers: set[bytes] = set()
        declined: set[int] = set()
        given: dict[int, str] = {}  # aliases, also of nodes that stay out
        trusted = context.settings.trusted
        known = context.run.aliases

        def refuse(node_id: int, reply: JoinReply) -> str | None:
            given[node_id] = reply.alias
            if reply.status != JoinStatus.JOINS:
                declined.add(node_id)
                return JoinStatus(reply.status).reason
            tells_labels = reply.label_counts is not None and not self.announced.in_the_clear
            if tells_labels or (reply.num_examples is not None) != self.announced.weighted:
                return "unexpected or missing numbers"
            if trusted is not None:
                reason = _untrusted(trusted, identity, self.announced, reply, signers)
                if reason is not None:
                    return reason
            if reply.public_key in seen:  # an agent would refuse the whole list
                return "public key of another node"
            seen.add(reply.public_key)
            return None

        told, report = accept_replies(self.batch, replies, refuse)
        report = replace(report, aliases=given)
        if trusted is None and _most_signed(told.values()):
            signed = _signed(told, identity, self.announced)
            report = report.without(told.keys() - signed, "join key not signed by a trusted node")
            told = {n: reply for n, reply in told.items() if n in signed}
        names = _names(told, known)
        report = report.without(told.keys() - names, ALIAS_OF_ANOTHER)
        run = replace(context.run, candidates=context.run.candidates | candidates_of(told))
        context = replace(context, run=run)
        kept = frozenset(_by_turn(run, [n for n in self.drawn if n in names])[: self.number])
        report = report.without(names.keys() - kept, "beyond max_registered")
        context = context.reported(report)
        accepted = {n: told[n] for n in told if n in kept}
        present = context.round.present
        run = replace(
            run,
            aliases={
                **{n: known[n] for n in known if n in present},
                **{n: names[n] for n in accepted},
            },
            declined=(run.declined & present).difference(accepted) | declined,
        )
        context = replace(context, run=run)
        context, num_classes, others = _of_one_length(context, accepted)
        aliases = {n: names[n] for n in accepted if n not in others}
        declined.update(others)
        context = replace(context, run=replace(run, declined=run.declined.union(others)))
        context.check_quorum(len(aliases), "part of the epoch", None)
        asked = frozenset(self.batch.requests).difference(names.keys() - kept)
        invitation = Invitation(
            identity=identity,
            announced=self.announced,
            num_classes=num_classes,
            asked=asked,
            left_out=frozenset(self.drawn) - asked,
            declined=frozenset(declined),
        )
        order = alias_order(aliases)
        return context, JoinedNodes(
            invitation=invitation,
            replies={node_id: accepted[node_id] for node_id in order},
            aliases={node_id: aliases[node_id] for node_id in order},
            were_all_asked=len(self.batch.requests) == len(self.drawn),
        )


def _num_asked(settings: Settings, num_present: int, num_refused: int) -> int:
    """Return how many nodes the next epoch asks, after some refused epochs in a row.

    Each epoch asks half the number of the previous one, but not fewer than the quorum, nor fewer
    than K unless K is more than half of the nodes.
    """
    number = min(num_present, settings.max_registered)
    least = max(settings.least_nodes, min(settings.num_participants, number // 2))
    return min(number, max(least, number >> num_refused))


def _by_turn(run: Run, drawn: Sequence[int]) -> list[int]:
    """Return randomly drawn nodes in the order in which they may register.

    Nodes that may be in the committee come first. After a refused epoch, only three of them do.
    Apart from that, nodes are then ordered by the number of failed epochs they were part of, since
    a lying node was part of all of them.
    """
    if not run.num_refused_epochs:
        return sorted(drawn, key=lambda node_id: node_id not in run.candidates)
    order = sorted(drawn, key=lambda node_id: run.failures.get(node_id, 0))
    first = frozenset([node_id for node_id in order if node_id in run.candidates][:COMMITTEE])
    return sorted(order, key=lambda node_id: node_id not in first)


def _most_signed(replies: Collection[JoinReply]) -> bool:
    """Return whether at least half the nodes signed: a few liars must not decide for everyone."""
    num_signed = sum(reply.signature is not None for reply in replies)
    return num_signed > 0 and 2 * num_signed >= len(replies)


def _signed(told: Mapping[int, JoinReply], epoch: bytes, announced: JoinRequest) -> frozenset[int]:
    """Return the nodes with valid signatures by different keys, whether or not they are trusted."""
    owners: dict[bytes, int] = {}
    for node_id, reply in told.items():
        signature = reply.signature or b""
        signer = signature[:SIGNER_BYTES]
        if is_signed_by(signer, _statement(epoch, announced, reply), signature):
            owners.setdefault(signer, node_id)
    return frozenset(owners.values())


def candidates_of(replies: Mapping[int, JoinReply]) -> frozenset[int]:
    """Return the nodes that say they may be in the committee."""
    ranks = {n: reply.rank for n, reply in replies.items()}
    return frozenset(n for n, rank in ranks.items() if rank is not None and rank < CANDIDATES)


def _names(told: Mapping[int, JoinReply], known: Mapping[int, str]) -> dict[int, str]:
    """Return the alias that each node has from now on.

    If several nodes claim an alias, the node that had it before keeps it, or else the first of
    them. The others are left out, except nodes that signed: part of such a node's key is appended
    to its alias, so that nobody can push it out.
    """
    owners: dict[str, int] = {}
    for node_id in sorted(told, key=lambda n: known.get(n) != told[n].alias):
        reply = told[node_id]
        name, signature = reply.alias, reply.signature
        while name in owners and signature is not None:
            name = f"{name} ({signature[:4].hex()})"
        owners.setdefault(name, node_id)
    return {node_id: name for name, node_id in owners.items()}


def _of_one_length(
    context: Context, accepted: Mapping[int, JoinReply]
) -> tuple[Context, int, list[int]]:
    """Return the number of classes that most nodes report, and the nodes that report another one.

    The largest number wins a tie. A note names the nodes that differ. Gives up if more than half of
    the nodes differ: the classes that they hold would be missing.
    """
    told = (reply.num_classes for reply in accepted.values())
    counted = Counter(number for number in told if number is not None)
    num_classes = min(counted, key=lambda number: (-counted[number], -number), default=1)
    others = [n for n, reply in accepted.items() if reply.num_classes != num_classes]
    if not others:
        return context, num_classes, others
    if 2 * len(others) > len(accepted):
        found = ", ".join(
            f"{length} classes at {nodes} {'node' if nodes == 1 else 'nodes'}"
            for length, nodes in counted.most_common()
        )
        context.give_up(f"Nodes disagree on the number of classes: {found}. {_EACH_CLASS}", None)
    names = ", ".join(f"node {accepted[n].alias} has {accepted[n].num_classes}" for n in others)
    note = f"Most nodes have {num_classes} classes; these stay out: {names}."
    return context.noted(f"{note} {_EACH_CLASS}"), num_classes, others


def _untrusted(
    trusted: TrustedKeys,
    epoch: bytes,
    announced: JoinRequest,
    reply: JoinReply,
    signers: set[bytes],
) -> str | None:
    """Return why agents would refuse a join key, given the trusted keys; None if they accept it."""
    try:
        signer = trusted.signer(_statement(epoch, announced, reply), reply.signature)
    except UntrustedError:
        return "join key not signed by a trusted node"
    if announced.has_committee and reply.rank != trusted.rank(signer):
        return "another order of trusted keys"
    if signer in signers:
        return "signing key of another node"
    signers.add(signer)
    return None


def _statement(epoch: bytes, announced: JoinRequest, reply: JoinReply) -> bytes:
    return join_statement(
        epoch, announced, reply.public_key, reply.num_examples, alias_digest(reply.alias)
    )
