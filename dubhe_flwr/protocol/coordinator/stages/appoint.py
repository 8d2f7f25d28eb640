"""The stage `appoint`: three nodes become the committee that opens the sums of the epoch."""

from dataclasses import dataclass, replace

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import JoinedNodes
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.keygen import ReadyToRegister
from dubhe_flwr.protocol.coordinator.stages.refused import OpenersLost, start_afresh
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.committee import CANDIDATES, SEALED_GROUP_KEY_BYTES
from dubhe_flwr.protocol.wire.messages import (
    COMMITTEE_SIZE,
    Appointment,
    AppointReply,
    AppointRequest,
    Stage,
)
from dubhe_flwr.protocol.wire.roster import split


@dataclass(frozen=True)
class Appoint(Awaiting):
    """Three nodes were asked to be the committee."""

    joined: JoinedNodes

    @classmethod
    def begin(cls, context: Context, joined: JoinedNodes) -> tuple[Context, "Appoint | Join"]:
        """Ask three of the nodes that joined to be the committee."""
        context.check_quorum(
            len(joined.replies), "part of the registration period", None, least=COMMITTEE_SIZE
        )
        members = joined.committee
        if len(members) < COMMITTEE_SIZE:
            context.give_up(
                f"{len(members)} of the first {CANDIDATES} trusted keys belong to nodes that "
                f"joined, but a committee needs {COMMITTEE_SIZE} members; at the top of the file "
                "of trusted keys, list the keys of nodes that are always connected.",
                None,
            )
        if joined.is_continued and not context.run.settled.issuperset(members):
            return start_afresh(context)
        places = list(joined.replies)
        request = AppointRequest(joined.roster, tuple(map(places.index, members)))
        asked = dict.fromkeys(members, request)
        context, batch = context.batch(joined.identity, Stage.APPOINT, asked)
        return context, cls(batch, joined)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, ReadyToRegister | OpenersLost]:
        """Take the group key and signatures."""
        joined, members = self.joined, self.joined.committee
        num_sealed, first = len(joined.replies), members[0]
        are_signed = joined.announced.has_trusted_keys

        def refuse(node_id: int, reply: AppointReply) -> str | None:
            sealed = SEALED_GROUP_KEY_BYTES * num_sealed if node_id == first else 0
            has_digest = bool(reply.group_digest) == (node_id == first)
            if not has_digest or len(reply.sealed_keys) != sealed:
                return "no group key"
            if bool(reply.state) != (joined.is_continued and node_id == first):
                return "no state of the last period"
            return None if bool(reply.signature) == are_signed else "wrong number of signatures"

        told, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        if lost := tuple(node_id for node_id in members if node_id not in told):
            return context, OpenersLost(lost)
        signatures = b"".join(told[node_id].signature or b"" for node_id in members)
        member_keys = b"".join(joined.replies[node_id].public_key for node_id in members)
        digest, group = joined.roster.digest, told[first].group_digest
        sealed_keys = split(told[first].sealed_keys, SEALED_GROUP_KEY_BYTES)
        request = joined.register_request(told[first].state)
        requests = {
            node_id: replace(
                request,
                committee=Appointment(member_keys, digest, group, sealed, signatures or None),
            )
            for node_id, sealed in zip(joined.replies, sealed_keys, strict=True)
        }
        return context, ReadyToRegister(joined, members, b"", requests)
