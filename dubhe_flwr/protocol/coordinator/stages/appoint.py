"""The stage `appoint`: three nodes become the committee that opens the sums of the epoch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.coordinator.context import AwaitingMembers, Context
from dubhe_flwr.protocol.coordinator.stages.join import Join, JoinedNodes, candidates_of
from dubhe_flwr.protocol.coordinator.stages.keygen import ReadyToRegister
from dubhe_flwr.protocol.coordinator.stages.refused import CommitteeLost, start_afresh
from dubhe_flwr.protocol.plan import ERROR_REPLY, Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.committee import (
    CANDIDATES,
    SEALED_GROUP_KEY_BYTES,
)
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE,
    Appointment,
    AppointReply,
    AppointRequest,
    JoinReply,
    RegisterRequest,
    Stage,
)
from dubhe_flwr.protocol.wire.roster import split

_MAJORITY: Final = COMMITTEE // 2 + 1
"""Number of members that have to agree on the rank of a node."""


@dataclass(frozen=True)
class Appoint(AwaitingMembers):
    """Three nodes were asked to be the committee."""

    joined: JoinedNodes

    @classmethod
    def begin(cls, context: Context, joined: JoinedNodes) -> tuple[Context, "Appoint | Join"]:
        """Ask three of the nodes that joined to be the committee.

        If a sample of the nodes has too few candidates, ask all connected nodes to join.
        """
        context.check_quorum(len(joined.replies), "part of the epoch", None, least=COMMITTEE)
        members = _members(context, joined)
        if joined.is_continued and not context.run.settled.issuperset(members):
            return start_afresh(context)
        if len(members) == COMMITTEE:
            places = list(joined.replies)
            request = AppointRequest(joined.roster, tuple(map(places.index, members)))
            asked = dict.fromkeys(members, request)
            context, batch = context.batch(joined.invitation.identity, Stage.APPOINT, asked)
            return context, cls(batch, joined, members=members)
        if joined.were_all_asked:
            context.give_up(
                f"{len(members)} of the first {CANDIDATES} trusted keys belong to nodes that "
                f"joined, but a committee needs {COMMITTEE} members; at the top of the file of "
                "trusted keys, list the keys of nodes that are always connected.",
                None,
            )
        return Join.begin(context, asks_all=True)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, "ReadyToRegister | Appoint | Join | CommitteeLost"]:
        """Take the group key and signatures; ask silent members once more."""
        joined, first = self.joined, self.members[0]
        num_sealed = len(joined.replies)

        def refuse(node_id: int, reply: AppointReply) -> str | None:
            if reply.ranks:
                return None if len(reply.ranks) == num_sealed else "wrong number of ranks"
            sealed = SEALED_GROUP_KEY_BYTES * num_sealed if node_id == first else 0
            has_digest = bool(reply.group_digest) == (node_id == first)
            if bool(reply.state) != (joined.is_continued and node_id == first):
                return "no state of the last epoch"
            return None if has_digest and len(reply.sealed_keys) == sealed else "no group key"

        accepted, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        told: dict[int, AppointReply] = {**self.told, **accepted}
        objections = [reply.ranks for reply in told.values() if reply.ranks]
        corrected = _corrected(joined, objections)
        needed = max(COMMITTEE, context.settings.least_nodes)
        if corrected is not None and len(corrected.replies) >= needed:
            return self.begin(*_without_strangers(context, joined, corrected))
        if (again := self.asked_again(context, told)) is not None:
            return again
        lost = [node_id for node_id in self.members if node_id not in told]
        if lost or objections:
            # A member may refuse because another one is not among its first six trusted keys.
            has_refused = ERROR_REPLY in report.lost or bool(objections)
            return context, CommitteeLost(self.members if has_refused else tuple(lost))
        signatures = [told[node_id].signature for node_id in self.members]
        signed = None
        if any(signatures):
            signed = b"".join(each or bytes(SIGNATURE_BYTES) for each in signatures)
        member_keys = b"".join(joined.replies[node_id].public_key for node_id in self.members)
        roster, digest, group = joined.roster, joined.roster.digest, told[first].group_digest
        sealed_keys = split(told[first].sealed_keys, SEALED_GROUP_KEY_BYTES)
        mean_examples, state = roster.mean_examples, told[first].state
        requests = {
            node_id: RegisterRequest(
                len(roster),
                committee=Appointment(member_keys, digest, group, sealed, signed),
                mean_examples=mean_examples,
                state=state,
            )
            for node_id, sealed in zip(joined.replies, sealed_keys, strict=True)
        }
        ready = ReadyToRegister(joined, (), b"", requests, self.members)
        return context.with_used_agents(self.members), ready


def _members(context: Context, joined: JoinedNodes) -> tuple[int, ...]:
    """Return the committee's members, or fewer if there are not enough candidates.

    Candidates that were part of the fewest failed epochs come first, because a lying member makes
    every epoch that asks it fail. Ties go to nodes that know how the last epoch ended. Nodes with
    pinned keys accept only three of the first six trusted keys, in their order.
    """
    failures, settled = context.run.failures, context.run.settled
    if joined.roster.signatures is None:
        order = context.agents(tuple(joined.replies))
        return tuple(sorted(order, key=lambda n: failures.get(n, 0))[:COMMITTEE])
    ranks = {n: joined.replies[n].rank or 0 for n in candidates_of(joined.replies)}
    first = sorted(ranks, key=lambda n: (failures.get(n, 0), n not in settled, ranks[n]))
    chosen = first[:COMMITTEE]
    return tuple(sorted(chosen, key=ranks.__getitem__))


def _corrected(joined: JoinedNodes, objections: Sequence[Sequence[int]]) -> JoinedNodes | None:
    """Return the nodes that joined, with the ranks that two members agree on.

    Nodes that these two do not trust are left out. Returns None if there is nothing to correct, or
    if this was done before.
    """
    if len(objections) < _MAJORITY or joined.is_corrected:
        return None
    ranked: dict[int, JoinReply] = {}
    strangers: set[int] = set()
    for place, (node_id, reply) in enumerate(joined.replies.items()):
        (rank, number), *_ = Counter(ranks[place] for ranks in objections).most_common(1)
        if number < _MAJORITY or rank == reply.rank:
            continue
        if rank >= 0:
            ranked[node_id] = replace(reply, rank=rank)
        else:
            strangers.add(node_id)
    if not ranked and not strangers:
        return None
    replies = {**joined.replies, **ranked}
    return replace(joined, replies=replies, is_corrected=True).without(strangers)


def _without_strangers(
    context: Context, joined: JoinedNodes, corrected: JoinedNodes
) -> tuple[Context, JoinedNodes]:
    """Note which nodes the committee does not trust, and drop candidates with too high a rank."""
    strangers = [name for n, name in joined.aliases.items() if n not in corrected.aliases]
    if strangers:
        names = ", ".join(strangers)
        context = context.noted(
            f"The committee does not trust these nodes, which stay out: {names}."
        )
    wrong = joined.replies.keys() - candidates_of(corrected.replies)
    run = replace(context.run, candidates=context.run.candidates - wrong)
    return replace(context, run=run), corrected
