"""The stage `join`: nodes are asked whether they take part in a new epoch."""

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
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
from dubhe_flwr.protocol.wire.messages import JoinReply, JoinRequest, JoinStatus, Stage
from dubhe_flwr.protocol.wire.statements import join_statement
from dubhe_flwr.protocol.wire.terms import LARGEST_WEIGHT

_EACH_CLASS: Final = (
    "label_counts must return a number for each class, also for the last ones, and not the labels: "
    "count_labels makes them."
)


@dataclass(frozen=True, kw_only=True)
class JoinedNodes:
    """The nodes that joined an epoch, with their replies in the order of the aliases."""

    invitation: Invitation
    members: Mapping[int, JoinReply]

    @property
    def mean_examples(self) -> float | None:
        """Mean number of samples, where nodes count by them; a node that lies hardly moves it."""
        told = (reply.num_examples for reply in self.members.values())
        numbers = [number for number in told if number is not None]
        if not numbers:
            return None
        most = LARGEST_WEIGHT * median(numbers)
        return sum(min(number, most) for number in numbers) / len(numbers)

    @property
    def public_keys(self) -> bytes:
        """Keys for sealed delivery, end to end."""
        return b"".join(reply.public_key for reply in self.members.values())

    @property
    def signatures(self) -> bytes | None:
        """Signatures of these keys, end to end; None if nobody signed."""
        if all(reply.signature is None for reply in self.members.values()):
            return None
        unsigned = bytes(SIGNATURE_BYTES)
        return b"".join(reply.signature or unsigned for reply in self.members.values())


@dataclass(frozen=True)
class Join(Awaiting):
    """Nodes were asked to join under what is announced; others were left out by lot."""

    announced: JoinRequest
    left_out: frozenset[int]

    @classmethod
    def begin(cls, context: Context) -> tuple[Context, "Join"]:
        """Ask the nodes that are there, or as many of them as may register, to join a new epoch."""
        present = context.in_order(context.round.present)
        num_refused = context.run.num_refused_epochs
        *before, number = _nums_asked(context.settings, len(present), num_refused)
        lots = generator(context.run.seed, "sample", context.server_round).permutation(len(present))
        # Next to those of the refused epochs: a node that lies is in one of two parts.
        drawn = {present[lot] for lot in np.roll(lots, -sum(before))[:number]}
        # Whoever may open the sums is always asked.
        asked = sorted(drawn | (context.run.candidates & context.round.present))
        if num_refused:
            context = context.noted(
                f"Epochs refused in a row: {num_refused}; the next one is of {number} of "
                f"{len(present)} nodes, drawn by lot."
            )
        announced = context.settings.announced(context.run.seed)
        identity = secrets.token_bytes(EPOCH_ID_BYTES)
        context, batch = context.batch(identity, Stage.JOIN, dict.fromkeys(asked, announced))
        return context, cls(batch, announced, context.round.present.difference(asked))

    def take(self, context: Context, replies: Replies) -> tuple[Context, JoinedNodes]:
        """Take those that join under one number of classes."""
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
                statement = join_statement(identity, self.announced, reply.public_key)
                if (reason := _untrusted(trusted, statement, reply, signers)) is not None:
                    return reason
            if reply.public_key in seen:  # an agent would refuse them all
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
    """Return how many nodes each refused epoch asked, and how many the next one does.

    Half as many each time; not below the quorum, nor below K once that is less than half of all.
    """
    number = min(num_present, settings.max_registered)
    least = max(settings.least_nodes, min(settings.num_participants, number // 2))
    return [min(number, max(least, number >> times)) for times in range(num_refused + 1)]


def _by_alias(told: Mapping[int, JoinReply], known: Mapping[int, str]) -> dict[int, JoinReply]:
    """Return, of the nodes with one alias, the one that had it before, or else the first."""
    known_first = sorted(told, key=lambda n: known.get(n) != told[n].alias)
    owners = {told[n].alias: n for n in reversed(known_first)}
    return {n: reply for n, reply in told.items() if owners[reply.alias] == n}


def _of_one_length(
    context: Context, accepted: Mapping[int, JoinReply]
) -> tuple[Context, int, list[int]]:
    """Return the number of classes that most nodes have, and the nodes with others; note these.

    Of equally frequent numbers it is the largest.
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
            f"Nodes disagree on the number of classes ({lengths}); only those with {num_classes} "
            "go on."
        )
    else:
        names = ", ".join(f"node {accepted[n].alias} has {accepted[n].num_classes}" for n in others)
        note = f"Most nodes have {num_classes} classes; others stay out: {names}."
    return context.noted(f"{note} {_EACH_CLASS}"), num_classes, others


def _untrusted(
    trusted: TrustedKeys, statement: bytes, reply: JoinReply, signers: set[bytes]
) -> str | None:
    """Return why agents would refuse a join key, where the server knows whom they trust."""
    try:
        signer = trusted.signer(statement, reply.signature)
    except UntrustedError:
        return "join key not signed by a trusted node"
    if signer in signers:
        return "signing key of another node"
    signers.add(signer)
    return None
