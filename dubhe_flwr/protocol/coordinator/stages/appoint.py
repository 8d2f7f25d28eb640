"""The stage `appoint`: three nodes become the committee that opens the sums of the epoch."""

from collections.abc import Mapping
from dataclasses import dataclass

from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.stages.join import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.keygen import KeyMade
from dubhe_flwr.protocol.coordinator.stages.refused import CommitteeLost
from dubhe_flwr.protocol.plan import ERROR_REPLY, Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.committee import (
    CANDIDATES,
    SEALED_GROUP_KEY_BYTES,
)
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE,
    AppointReply,
    AppointRequest,
    Committee,
    RegisterRequest,
    Stage,
)
from dubhe_flwr.protocol.wire.roster import split


@dataclass(frozen=True)
class Appoint(Awaiting):
    """Three nodes were asked to be the committee."""

    joined: JoinedNodes
    members: tuple[int, ...]  # node ids, in order of their place in the committee
    replies: Mapping[int, AppointReply]  # of the members that have answered
    is_repeated: bool

    @classmethod
    def begin(cls, context: Context, joined: JoinedNodes) -> tuple[Context, "Appoint"]:
        """Ask three of the nodes that joined to be the committee."""
        context.check_quorum(len(joined.members), "part of the epoch", None, least=COMMITTEE)
        members = _members(context, joined)
        return cls.ask(context, joined, members, {}, is_repeated=False)

    @classmethod
    def ask(
        cls,
        context: Context,
        joined: JoinedNodes,
        members: tuple[int, ...],
        replies: Mapping[int, AppointReply],
        *,
        is_repeated: bool,
    ) -> tuple[Context, "Appoint"]:
        """Ask the members that have not answered yet."""
        places = list(joined.members)
        request = AppointRequest(joined.roster, tuple(map(places.index, members)))
        asked = dict.fromkeys([node for node in members if node not in replies], request)
        context, batch = context.batch(joined.invitation.identity, Stage.APPOINT, asked)
        return context, cls(batch, joined, members, replies, is_repeated)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, "KeyMade | Appoint | CommitteeLost"]:
        """Take the group key and signatures; ask members that did not answer once more."""
        joined, first = self.joined, self.members[0]
        num_sealed = len(joined.members)

        def refuse(node_id: int, reply: AppointReply) -> str | None:
            sealed = SEALED_GROUP_KEY_BYTES * num_sealed if node_id == first else 0
            has_digest = bool(reply.group_digest) == (node_id == first)
            return None if has_digest and len(reply.sealed_keys) == sealed else "no group key"

        accepted, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        told = {**self.replies, **accepted}
        lost = [node_id for node_id in self.members if node_id not in told]
        if lost and not self.is_repeated:
            context = context.noted("A member of the committee did not answer; it is asked again.")
            return self.ask(context, joined, self.members, told, is_repeated=True)
        if lost:
            # A member may refuse because another one is not among its first six trusted keys.
            has_refused = ERROR_REPLY in report.lost
            return context, CommitteeLost(self.members if has_refused else tuple(lost))
        signatures = [told[node_id].signature for node_id in self.members]
        signed = None
        if any(signatures):
            signed = b"".join(each or bytes(SIGNATURE_BYTES) for each in signatures)
        member_keys = b"".join(joined.members[node_id].public_key for node_id in self.members)
        roster, digest = joined.roster, told[first].group_digest
        sealed_keys = split(told[first].sealed_keys, SEALED_GROUP_KEY_BYTES)
        mean_examples = roster.mean_examples
        requests = {
            node_id: RegisterRequest(
                len(roster),
                committee=Committee(member_keys, roster.digest, digest, sealed, signed),
                mean_examples=mean_examples,
            )
            for node_id, sealed in zip(joined.members, sealed_keys, strict=True)
        }
        made = KeyMade(joined, (), b"", requests, self.members)
        return context.with_used_agents(self.members), made


def _members(context: Context, joined: JoinedNodes) -> tuple[int, ...]:
    """Return the committee's members; members of one that failed in this round come last.

    Nodes with pinned keys accept only three of the first six trusted keys, in their order.
    """
    order = context.agents(tuple(joined.members))
    if joined.roster.signatures is None:
        return order[:COMMITTEE]
    ranks = {node_id: reply.rank for node_id, reply in joined.members.items()}
    known = {n: rank for n, rank in ranks.items() if rank is not None and rank < CANDIDATES}
    if len(known) < COMMITTEE:
        context.give_up(
            f"{len(known)} of the first {CANDIDATES} trusted keys belong to nodes that joined, "
            f"and a committee has {COMMITTEE} members; put nodes that are always connected first "
            "in the file of trusted keys.",
            None,
        )
    suspects = context.round.used_agents if context.round.num_renewals else frozenset()
    chosen = sorted(known, key=lambda n: (n in suspects, known[n]))[:COMMITTEE]
    return tuple(sorted(chosen, key=known.__getitem__))
