"""The stage `join`: the server asks nodes to take part in a new epoch."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

from dubhe_flwr.core.randomness import generator, shuffled
from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.dropped_replies import NOT_SIGNED
from dubhe_flwr.protocol.coordinator.epoch import Invitation
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import ALIAS_OF_ANOTHER, accept_replies, alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults.committee import CANDIDATES
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE_SIZE,
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
    # The members of the committee, in order; fewer than three if there are too few candidates.
    committee: tuple[int, ...] = ()

    @property
    def is_continued(self) -> bool:
        """Whether the rule starts from the state of the last epoch."""
        return self.invitation.announced.continues is not None

    @cached_property
    def roster(self) -> Roster:
        """What the agent or committee is shown; has signatures if the server knows the keys."""
        replies = self.replies.values()
        numbers = [reply.num_examples for reply in replies if reply.num_examples is not None]
        roster = Roster(b"".join(reply.public_key for reply in replies), tuple(numbers) or None)
        if not self.invitation.announced.has_trusted_keys:
            return roster
        return replace(
            roster,
            alias_digests=b"".join(alias_digest(reply.alias) for reply in replies),
            signatures=b"".join(reply.signature or b"" for reply in replies),
        )


@dataclass(frozen=True)
class Join(Awaiting):
    """Nodes were asked to join."""

    announced: JoinRequest
    drawn: tuple[int, ...]  # all connected nodes, in a random order

    @classmethod
    def begin(cls, context: Context) -> tuple[Context, "Join"]:
        """Ask the connected nodes, or a random sample of them, to join a new epoch.

        If trusted keys decide who may be in the committee, all nodes are asked, to find those with
        the first keys; the sample is taken from the nodes that join.
        """
        run, present = context.run, context.in_order(context.round.present)
        drawn = tuple(shuffled(present, run.seed, "sample", context.server_round))
        if run.num_refused_epochs:
            context = context.noted(
                f"Epochs refused in a row: {run.num_refused_epochs}; the next one takes "
                f"{_sizes(context)[-1]} of {len(present)} nodes, drawn at random."
            )
        # An epoch that fails is not continued, and the next one starts afresh.
        announced = context.settings.announced(run.seed)
        announced = replace(announced, continues=run.continued)
        context = replace(context, run=replace(run, continued=None))
        asks_all = announced.has_committee and announced.has_trusted_keys
        asked = drawn if asks_all else _sample(context, drawn)
        identity = secrets.token_bytes(EPOCH_ID_BYTES)
        requests = dict.fromkeys(sorted(asked), announced)
        context, batch = context.batch(identity, Stage.JOIN, requests)
        return context, cls(batch, announced, drawn)

    def take(self, context: Context, replies: Replies) -> tuple[Context, JoinedNodes]:
        """Take the nodes that join and agree on the number of classes."""
        identity = self.batch.header.epoch
        seen: set[bytes] = set()
        ranks: dict[int, int] = {}  # position of the trusted key, by node that signed with it
        used: set[int] = set()
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
                try:
                    rank = trusted.rank(
                        _statement(identity, self.announced, reply), reply.signature
                    )
                except UntrustedError:
                    return NOT_SIGNED
                if rank in used:
                    return "signing key of another node"
                used.add(rank)
                ranks[node_id] = rank
            if reply.public_key in seen:  # an agent would refuse the whole list
                return "public key of another node"
            seen.add(reply.public_key)
            return None

        told, report = accept_replies(self.batch, replies, refuse)
        names = _names(told, known, ranks)
        report = replace(report, aliases=given).without(told.keys() - names, ALIAS_OF_ANOTHER)
        context = context.reported(report)
        accepted = {n: told[n] for n in told if n in names}
        present = context.round.present
        stay_out = (context.run.declined & present).difference(accepted) | declined
        aliases = {**{n: known[n] for n in known if n in present}, **names}
        run = replace(context.run, aliases=aliases, declined=stay_out)
        context = replace(context, run=run)
        context, num_classes, others = _of_one_length(context, accepted)
        declined.update(others)
        run = replace(
            context.run,
            declined=stay_out.union(others),
            committee_turn=run.committee_turn + run.needs_other_committee,
            needs_other_committee=False,
        )
        context = replace(context, run=run)
        agreed = [n for n in self.drawn if n in accepted and n not in others]
        context.check_quorum(len(agreed), "part of the epoch", None)
        committee: tuple[int, ...] = ()
        if self.announced.has_committee:
            is_continued = self.announced.continues is not None
            own_names = {node_id: names[node_id] for node_id in agreed}
            committee = _committee(context, own_names, ranks, is_continued=is_continued)
        kept = _registering(context, committee, agreed, ranks)
        asked = frozenset(self.batch.requests).difference(set(agreed).difference(kept))
        order = alias_order({node_id: names[node_id] for node_id in kept})
        invitation = Invitation(
            identity=identity,
            announced=self.announced,
            num_classes=num_classes,
            asked=asked,
            left_out=frozenset(self.drawn) - asked,
            declined=frozenset(declined),
        )
        return context, JoinedNodes(
            invitation=invitation,
            replies={node_id: accepted[node_id] for node_id in order},
            aliases={node_id: names[node_id] for node_id in order},
            committee=committee,
        )


def _num_taken(settings: Settings, num_present: int, num_refused: int) -> int:
    """Return how many nodes the next epoch takes, after some refused epochs in a row.

    Each epoch takes half the number of the previous one, but not fewer than the quorum or a
    committee, nor fewer than K unless K is more than half of the nodes.
    """
    number = min(num_present, settings.max_registered)
    least = max(settings.least_nodes, COMMITTEE_SIZE, min(settings.num_participants, number // 2))
    return min(number, max(least, number >> num_refused))


def _sizes(context: Context) -> list[int]:
    """Return how many nodes take part in each epoch since the last one that was not refused."""
    num_refused, num_present = context.run.num_refused_epochs, len(context.round.present)
    return [_num_taken(context.settings, num_present, each) for each in range(num_refused + 1)]


def _sample(context: Context, nodes: Sequence[int], num_others: int = 0) -> list[int]:
    """Return a sample of nodes in a random order, besides `num_others` others.

    After a refused epoch, each sample continues where the previous one ended, as if the nodes stood
    in a circle. So a lying node is in one of two samples at most, if these are halves or smaller.
    """
    *earlier, size = (number - num_others for number in _sizes(context))
    start = sum(earlier[1:]) % max(1, len(nodes))
    return [*nodes[start:], *nodes[:start]][:size]


def _committee(
    context: Context, aliases: Mapping[int, str], ranks: Mapping[int, int], *, is_continued: bool
) -> tuple[int, ...]:
    """Return the committee's members, or fewer if there are not enough candidates.

    The candidates are the nodes with the first six trusted keys, in their order, or without trusted
    keys six random nodes, drawn by alias, since node ids differ from run to run. The first three in
    this line are asked first. When it is another committee's turn, the three that were left out of
    the last one follow if there are six. A node that always fails therefore spoils at most four
    epochs in a row, and it is not asked again until the committee without it fails. An epoch that
    continues takes the first committee in turn whose members all know how the last one ended, but
    not the last in turn, which may have failed.
    """
    run, settled = context.run, context.run.settled
    lots = {
        node_id: generator(run.seed, "committee", context.server_round, alias).random()
        for node_id, alias in aliases.items()
        if ranks.get(node_id, 0) < CANDIDATES
    }
    line = sorted(lots, key=lambda n: (ranks.get(n, n not in settled), lots[n]))
    threes: list[tuple[int, ...]] = [*combinations(line[:CANDIDATES], COMMITTEE_SIZE)]
    threes = threes or [tuple(line)]
    # The first and the last choice have no node in common if there are six, and so on inwards.
    turns = [three for pair in zip(threes, reversed(threes), strict=True) for three in pair]
    turn = run.committee_turn % len(threes)
    line_up = [*turns[turn : len(threes)], *turns[:turn]]
    known = [three for three in line_up[:-1] if is_continued and settled.issuperset(three)]
    members = [*known, *line_up][0]
    return tuple(sorted(members, key=lambda node_id: ranks.get(node_id, 0)))


def _registering(
    context: Context, committee: Sequence[int], nodes: Sequence[int], ranks: Mapping[int, int]
) -> list[int]:
    """Return the nodes that register: the committee, and a sample of the others.

    After a refused epoch, the other nodes with the first keys come last, so that the epoch leaves
    out a lying candidate unless it is a member.
    """
    number, last = _sizes(context)[-1], list[int]()
    if context.run.num_refused_epochs:
        candidates = (n for n in nodes if ranks.get(n, CANDIDATES) < CANDIDATES)
        last = [node_id for node_id in candidates if node_id not in committee]
    others = [n for n in nodes if n not in (*committee, *last)]
    return [*committee, *_sample(context, others, len(committee)), *last][:number]


def _names(
    told: Mapping[int, JoinReply], known: Mapping[int, str], ranks: Mapping[int, int]
) -> dict[int, str]:
    """Return the alias that each node has from now on.

    If several nodes claim an alias, the node that had it before keeps it, or else the first of
    them. The others are left out, except nodes with trusted keys: the position of such a node's key
    is appended to its alias, so that nobody can push it out.
    """
    owners: dict[str, int] = {}
    for node_id in sorted(told, key=lambda n: known.get(n) != told[n].alias):
        name = told[node_id].alias
        while name in owners and node_id in ranks:
            name = f"{name} (key {ranks[node_id] + 1})"
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


def _statement(epoch: bytes, announced: JoinRequest, reply: JoinReply) -> bytes:
    return join_statement(
        epoch, announced, reply.public_key, reply.num_examples, alias_digest(reply.alias)
    )
