"""The stage `open`: the members of the committee open a sum for all nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import RegisteredNodes
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.refused import with_other_openers
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.wire.messages import OpenReply, OpenRequest, Stage
from dubhe_flwr.protocol.wire.terms import sum_name_of


@dataclass(frozen=True)
class OpenedSum:
    """The registered nodes can read their last sum."""

    registered: RegisteredNodes
    # The members' proofs of the sum, for each node that joined; empty without a committee.
    proofs: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Open(Awaiting):
    """Members were asked to open a sum."""

    registered: RegisteredNodes

    @classmethod
    def begin(
        cls, context: Context, registered: RegisteredNodes
    ) -> tuple[Context, "Open | OpenedSum"]:
        """Ask the committee, if there is one."""
        joined, last = registered.joined, registered.last_sum
        with_committee = joined.terms.num_members > 0
        if with_committee:
            # Members would refuse any other sum, which is not their fault.
            least = joined.announced.least_clients(len(joined.replies))
            context.check_quorum(last.num_clients, "in the sum", None, least=least)
        members = joined.committee
        if not members:
            # Use up the sequence number that a request to a committee would have.
            return context.counted(int(with_committee)), OpenedSum(registered)
        request = OpenRequest(last.number, _covered(registered), last.sums, registered.previous)
        asked = dict.fromkeys(members, request)
        context, batch = context.batch(joined.identity, Stage.OPEN, asked)
        return context, cls(batch, registered)

    def take(self, context: Context, replies: Replies) -> tuple[Context, OpenedSum | Join]:
        """Append the members' parts to the total."""
        registered = self.registered
        joined, last = registered.joined, registered.last_sum
        vault = joined.terms.vault
        assert isinstance(vault, Committee)  # noqa: S101 - other vaults never get here
        field = sum_name_of(last.number).field

        def refuse(_node_id: int, reply: OpenReply) -> str | None:
            fits = vault.is_release(field, len(joined.replies), reply)
            return None if fits else "wrong size of a part"

        told, report = accept_replies(self.batch, replies, refuse)
        context = context.reported(report)
        if lost := tuple(node_id for node_id in joined.committee if node_id not in told):
            return with_other_openers(context, lost)
        parts = [told[node_id] for node_id in joined.committee]
        opened = replace(last, sums=vault.opened(last.sums, _covered(registered), parts))
        proofs = dict(zip(joined.replies, vault.proofs(parts), strict=True))
        return context, OpenedSum(replace(registered, last_sum=opened), proofs)


def _covered(registered: RegisteredNodes) -> bytes:
    """Return a bit for each node that joined, set if it is in the last sum."""
    bits = [node_id in registered.distributions for node_id in registered.joined.replies]
    return np.packbits(bits).tobytes()
