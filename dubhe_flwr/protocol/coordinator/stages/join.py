"""The stage `join`: the server asks nodes to take part in a new epoch."""

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dubhe_flwr.core.randomness import shuffled
from dubhe_flwr.errors import UntrustedError
from dubhe_flwr.he.signing import TrustedKeys
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.dropped_replies import NOT_SIGNED
from dubhe_flwr.protocol.coordinator.epoch import JoinedNodes
from dubhe_flwr.protocol.coordinator.sampling import committee_of, num_taken, registering, sample
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES, JoinRequest, JoinStatus
from dubhe_flwr.protocol.wire.messages import JoinReply, Stage
from dubhe_flwr.protocol.wire.roster import alias_digest
from dubhe_flwr.protocol.wire.statements import join_statement

_EACH_CLASS: Final = (
    "label_counts must return one count for each class, including classes without samples, and not "
    "the labels themselves; count_labels(labels, num_classes) makes these counts, and np.bincount "
    "needs minlength=num_classes for them."
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
        if run.continued is not None:  # nodes asked in vain could not continue that epoch later
            context.check_quorum(len(present), "connected", None)
        drawn = tuple(shuffled(present, run.seed, "sample", context.server_round))
        if num_refused := run.num_refused_epochs:
            context = context.noted(
                f"Registrations refused in a row: {num_refused}; the next one takes "
                f"{num_taken(context)} of {len(present)} nodes, drawn at random."
            )
        # An epoch that fails is not continued, and the next one starts afresh.
        announced = context.settings.announced(run.seed)
        announced = replace(announced, continues=run.continued)
        context = context.with_run(continued=None)
        asks_all = announced.has_committee and announced.has_trusted_keys
        asked = drawn if asks_all else sample(context, drawn)
        identity = secrets.token_bytes(EPOCH_ID_BYTES)
        requests = dict.fromkeys(sorted(asked), announced)
        context, batch = context.batch(identity, Stage.JOIN, requests)
        return context, cls(batch, announced, drawn)

    def take(self, context: Context, replies: Replies) -> tuple[Context, JoinedNodes]:
        """Take the nodes that join and agree on the number of classes."""
        checks = _Checks(self.batch.header.epoch, self.announced, context.settings.trusted)
        accepted, report = accept_replies(self.batch, replies, checks.refuse)
        known, present = context.run.aliases, context.round.present
        names = _names(accepted, known)
        context = context.reported(replace(report, aliases=checks.aliases)).with_run(
            aliases={**{n: known[n] for n in known if n in present}, **names},
            declined=(context.run.declined & present).difference(names) | checks.declined,
        )
        context, num_classes, others = _of_one_length(context, accepted)
        run = context.run
        context = context.with_run(
            declined=run.declined.union(others),
            committee_turn=run.committee_turn + run.needs_other_committee,
            needs_other_committee=False,
        )
        agreed = [n for n in self.drawn if n in accepted and n not in others]
        context.check_quorum(len(agreed), "part of the registration period", None)
        own_names = {node_id: names[node_id] for node_id in agreed}
        committee, turn = committee_of(context, self.announced, own_names, checks.ranks)
        context = context.with_run(committee_turn=turn)
        kept = registering(context, committee, agreed, checks.ranks)
        asked = frozenset(self.batch.requests).difference(set(agreed).difference(kept))
        return context, JoinedNodes(
            identity=self.batch.header.epoch,
            announced=self.announced,
            num_classes=num_classes,
            replies={node_id: accepted[node_id] for node_id in context.in_order(kept)},
            committee=committee,
            asked=asked,
            left_out=frozenset(self.drawn) - asked,
            declined=frozenset(checks.declined.union(others)),
        )


@dataclass
class _Checks:
    """Checks replies one after another; keeps what they say and what the next ones must not say."""

    epoch: bytes
    announced: JoinRequest
    trusted: TrustedKeys | None
    aliases: dict[int, str] = field(default_factory=dict)  # includes nodes that sit out
    declined: set[int] = field(default_factory=set)
    ranks: dict[int, int] = field(default_factory=dict)  # positions of the nodes' signing keys
    _public_keys: set[bytes] = field(default_factory=set)

    def refuse(self, node_id: int, reply: JoinReply) -> str | None:
        """Return why a reply cannot be used, or None."""
        self.aliases[node_id] = reply.alias
        if reply.status != JoinStatus.JOINS:
            self.declined.add(node_id)
            return JoinStatus(reply.status).reason
        tells_labels = reply.label_counts is not None and not self.announced.in_the_clear
        if tells_labels or (reply.num_examples is not None) != self.announced.weighted:
            return "unexpected or missing numbers"
        if self.trusted is not None:
            statement = join_statement(
                self.epoch,
                self.announced,
                reply.public_key,
                reply.num_examples,
                alias_digest(reply.alias),
            )
            try:
                rank = self.trusted.rank(statement, reply.signature)
            except UntrustedError:
                self.declined.add(node_id)  # so that it neither trains at random nor counts as new
                return NOT_SIGNED
            if rank in self.ranks.values():
                return "signing key of another node"
            self.ranks[node_id] = rank
        if reply.public_key in self._public_keys:  # an agent would refuse the whole list
            return "public key of another node"
        self._public_keys.add(reply.public_key)
        return None


def _names(accepted: Mapping[int, JoinReply], known: Mapping[int, str]) -> dict[int, str]:
    """Return the alias that each node has from now on.

    If several nodes claim an alias, the node that had it before keeps it, or else the first of them
    gets it. The others get it with their ids appended.
    """
    owners: dict[str, int] = {}
    for node_id in sorted(accepted, key=lambda n: known.get(n) != accepted[n].alias):
        name = accepted[node_id].alias
        while name in owners:
            name = f"{name} (id {node_id})"
        owners[name] = node_id
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
    note = f"Most nodes have {num_classes} classes; these sit out: {names}."
    return context.noted(f"{note} {_EACH_CLASS}"), num_classes, others
