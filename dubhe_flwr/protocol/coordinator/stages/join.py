"""The stage `join`: the server asks nodes to take part in a new epoch."""

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he.signing import SIGNATURE_BYTES, TrustedKeys
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.dropped_replies import REMEDIES
from dubhe_flwr.protocol.coordinator.epoch import Invitation
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import ALIAS_OF_ANOTHER, accept_replies, alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.messages import JoinReply, JoinRequest, JoinStatus, Roster, Stage
from dubhe_flwr.protocol.wire.roster import alias_digest
from dubhe_flwr.protocol.wire.statements import join_statement

_EACH_CLASS: Final = (
    "label_counts must return one count for each class, including classes without samples, and not "
    "the labels themselves; count_labels makes these counts."
)


@dataclass(frozen=True, kw_only=True)
class JoinedNodes:
    """The nodes that joined an epoch, with their replies, ordered by alias."""

    invitation: Invitation
    members: Mapping[int, JoinReply]

    @cached_property
    def roster(self) -> Roster:
        """What the agent or committee gets to see; without signatures if no node signed."""
        replies, unsigned = self.members.values(), bytes(SIGNATURE_BYTES)
        numbers = [reply.num_examples for reply in replies if reply.num_examples is not None]
        roster = Roster(b"".join(reply.public_key for reply in replies), tuple(numbers) or None)
        if all(reply.signature is None for reply in replies):
            return roster
        return replace(
            roster,
            alias_digests=b"".join(alias_digest(reply.alias) for reply in replies),
            signatures=b"".join(reply.signature or unsigned for reply in replies),
        )


@dataclass(frozen=True)
class Join(Awaiting):
    """Nodes were asked to join; nodes beyond the sample were left out."""

    announced: JoinRequest
    left_out: frozenset[int]

    @classmethod
    def begin(cls, context: Context) -> tuple[Context, "Join"]:
        """Ask the connected nodes, or a random sample of them, to join a new epoch."""
        present = context.in_order(context.round.present)
        num_refused = context.run.num_refused_epochs
        *before, number = _nums_asked(context.settings, len(present), num_refused)
        lots = generator(context.run.seed, "sample", context.server_round).permutation(len(present))
        # After a refused epoch, ask the half that was not asked last time: a lying node is in only
        # one of the two.
        drawn = [present[lot] for lot in np.roll(lots, -sum(before))]
        # Nodes that may be in the committee are asked first.
        drawn.sort(key=lambda node_id: node_id not in context.run.candidates)
        asked = sorted(drawn[:number])
        if num_refused:
            context = context.noted(
                f"Epochs refused in a row: {num_refused}; the next one asks {number} of "
                f"{len(present)} nodes, drawn at random."
            )
        announced = context.settings.announced(context.run.seed)
        identity = secrets.token_bytes(EPOCH_ID_BYTES)
        context, batch = context.batch(identity, Stage.JOIN, dict.fromkeys(asked, announced))
        return context, cls(batch, announced, context.round.present.difference(asked))

    def take(self, context: Context, replies: Replies) -> tuple[Context, JoinedNodes]:
        """Take the nodes that join and agree on the number of classes."""
        identity = self.batch.header.epoch
        seen: set[bytes] = set()
        signers: set[bytes] = set()
        declined: set[int] = set()
        trusted = context.settings.trusted
        known = context.run.aliases

        def refuse(node_id: int, reply: JoinReply) -> str | None:
            if reply.status != JoinStatus.JOINS:
                declined.add(node_id)
                return JoinStatus(reply.status).reason
            tells_labels = reply.label_counts is not None and not self.announced.in_the_clear
            if tells_labels or (reply.num_examples is not None) != self.announced.weighted:
                return "numbers that were not asked for, or missing ones"
            if trusted is not None:
                reason = _untrusted(trusted, identity, self.announced, reply, signers)
                if reason is not None:
                    return reason
            if reply.public_key in seen:  # an agent would refuse the whole list
                return "public key of another node"
            seen.add(reply.public_key)
            return None

        told, report = accept_replies(self.batch, replies, refuse)
        accepted = _by_alias(told, known)
        report = report.without(told.keys() - accepted, ALIAS_OF_ANOTHER)
        context = context.reported(report)
        context, num_classes, others = _of_one_length(context, accepted)
        aliases = {n: reply.alias for n, reply in accepted.items() if n not in others}
        declined.update(others)
        present = context.round.present
        run = replace(
            context.run,
            aliases={**{n: known[n] for n in known if n in present}, **aliases},
            candidates=context.run.candidates.union(
                n
                for n, reply in accepted.items()
                if reply.rank is not None and reply.rank < CANDIDATES
            ),
            declined=(context.run.declined & present).difference(aliases) | declined,
        )
        context = replace(context, run=run)
        context.check_quorum(len(aliases), "part of the epoch", None)
        for reason, number in report.dropped.items():
            if 2 * number > report.sent and reason in REMEDIES:
                context = context.noted(f"Most nodes stay out ({reason}); {REMEDIES[reason]}.")
        invitation = Invitation(
            identity=identity,
            announced=self.announced,
            num_classes=num_classes,
            asked=frozenset(self.batch.requests),
            left_out=self.left_out,
            declined=frozenset(declined),
        )
        return context, JoinedNodes(
            invitation=invitation,
            members={node_id: accepted[node_id] for node_id in alias_order(aliases)},
        )


def _nums_asked(settings: Settings, num_present: int, num_refused: int) -> list[int]:
    """Return how many nodes each refused epoch asked, and how many the next one asks.

    Each number is half the previous one, but not below the quorum, nor below K unless K is more
    than half of the nodes.
    """
    number = min(num_present, settings.max_registered)
    least = max(settings.least_nodes, min(settings.num_participants, number // 2))
    return [min(number, max(least, number >> times)) for times in range(num_refused + 1)]


def _by_alias(told: Mapping[int, JoinReply], known: Mapping[int, str]) -> dict[int, JoinReply]:
    """Return one node for each alias: the one that had it before, or else the first."""
    known_first = sorted(told, key=lambda n: known.get(n) != told[n].alias)
    owners = {told[n].alias: n for n in reversed(known_first)}
    return {n: reply for n, reply in told.items() if owners[reply.alias] == n}


def _of_one_length(
    context: Context, accepted: Mapping[int, JoinReply]
) -> tuple[Context, int, list[int]]:
    """Return the number of classes that most nodes report, and the nodes that report another.

    The largest number wins a tie. A note names the nodes that differ.
    """
    told = (reply.num_classes for reply in accepted.values())
    counted = Counter(number for number in told if number is not None)
    num_classes = min(counted, key=lambda number: (-counted[number], -number), default=1)
    others = [n for n, reply in accepted.items() if reply.num_classes != num_classes]
    if not others:
        return context, num_classes, others
    if 2 * len(others) > len(accepted):
        lengths = ", ".join(
            f"{nodes} nodes have {length}" for length, nodes in counted.most_common()
        )
        note = (
            f"Nodes disagree on the number of classes ({lengths}); only nodes with {num_classes} "
            "go on."
        )
    else:
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
    statement = join_statement(
        epoch, announced, reply.public_key, reply.num_examples, alias_digest(reply.alias)
    )
    try:
        signer = trusted.signer(statement, reply.signature)
    except UntrustedError:
        return "join key not signed by a trusted node"
    if announced.vault == "committee" and reply.rank != trusted.rank(signer):
        return "another order of trusted keys"
    if signer in signers:
        return "signing key of another node"
    signers.add(signer)
    return None
