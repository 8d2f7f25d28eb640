"""The stage `register`: nodes send their registrations and label distributions, hidden."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import RegisteredNodes
from dubhe_flwr.protocol.coordinator.stages.appoint import ReadyToRegister
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.refused import (
    may_renew,
    with_complaints,
    with_other_openers,
)
from dubhe_flwr.protocol.plan import ERROR_REPLY, Replies, StageReport
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.vaults.keyed import UNUSABLE_KEY
from dubhe_flwr.protocol.wire.messages import RegisterReply, RuleSum, Stage
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, REGISTRATION


@dataclass(frozen=True)
class Register(Awaiting):
    """Nodes were sent their sealed keys and asked to register."""

    ready: ReadyToRegister

    @classmethod
    def begin(cls, context: Context, ready: ReadyToRegister) -> tuple[Context, "Register"]:
        """Send each node its sealed key."""
        context, batch = context.batch(ready.joined.identity, Stage.REGISTER, ready.requests)
        return context, cls(batch, ready)

    def take(self, context: Context, replies: Replies) -> tuple[Context, RegisteredNodes | Join]:
        """Add up the registrations, unless the agent or the committee has failed."""
        joined, public = self.ready.joined, self.ready.public
        terms = joined.terms
        fields = [name for name in (REGISTRATION, DISTRIBUTION) if name in terms.vault.fields]
        size, *of_agent = map(terms.vault.vector_bytes, fields)

        def refuse(_node_id: int, reply: RegisterReply) -> str | None:
            told = [] if reply.distribution is None else [len(reply.distribution)]
            fits = len(reply.registration) == size and told == of_agent
            return None if fits else "wrong size of ciphertexts"

        accepted, report = accept_replies(self.batch, replies, refuse)
        context, lost = self._lost(context, accepted, replies, report)
        if lost:
            return with_other_openers(context.reported(report), lost)
        # Check both as one vector, so that a node counts with both or with neither.
        vectors = {
            n: reply.registration + (reply.distribution or b"") for n, reply in accepted.items()
        }
        add_up = partial(terms.vault.add_up, public, fields)
        context, answered, total = context.summed(add_up, vectors, report, "registered")
        context = context.with_run(has_registered=True)
        if (remark := context.settings.remark(len(answered))) is not None:
            context = context.noted(remark)
        return context, RegisteredNodes(
            joined=joined,
            public=public,
            distributions={n: accepted[n].distribution or b"" for n in answered},
            num_registered=len(answered),
            last_sum=RuleSum(total[:size], len(answered), number=0),
        )

    def _has_failed(
        self, context: Context, accepted: Mapping[int, RegisterReply], report: StageReport
    ) -> bool:
        """Return whether too few nodes accept what the agent or committee made for them.

        Also True if most of the nodes that know how the last epoch ended reject the account of it
        that they were given. Never True in a round's last epoch, which goes on with the nodes that
        are left.

        Each registration costs the nodes a part of their budgets. So nodes that refused to register
        in an earlier epoch of this round count only towards the quorum: they may well refuse any
        key.
        """
        if not may_renew(context):
            return False
        joined, settings = self.ready.joined, context.settings
        num_joined = len(joined.replies)
        # A key that does not open causes an error reply. A new key would not help silent nodes.
        too_few = num_joined - report.num_errors < settings.least_nodes
        refused_before = {
            node_id
            for earlier in context.round.reports
            if earlier.stage == Stage.REGISTER
            for node_id in earlier.lost.get(ERROR_REPLY, ())
        }
        refusing = set(report.lost.get(ERROR_REPLY, ())) - refused_before
        if too_few or len(refusing) > settings.most_errors(num_joined):
            return True
        settled = context.run.settled & joined.replies.keys()
        return joined.is_continued and 2 * len(settled & accepted.keys()) < len(settled)

    def _lost(
        self,
        context: Context,
        accepted: Mapping[int, RegisterReply],
        replies: Replies,
        report: StageReport,
    ) -> tuple[Context, tuple[int, ...]]:
        """Note complaints about the first opener, and return who failed."""
        openers = self.ready.openers
        if not openers:
            return context, ()
        context, complaining = with_complaints(
            context, openers[0], UNUSABLE_KEY, "sealed no usable key for", replies, report
        )
        # No sum opens without the other members. Either they lie, or the first one does.
        if members := set(openers[1:]).intersection(complaining):
            return context, (openers[0], *(n for n in openers if n in members))
        if self._has_failed(context, accepted, report):
            return context, openers
        return (context.with_run(needs_other_committee=True) if complaining else context), ()
