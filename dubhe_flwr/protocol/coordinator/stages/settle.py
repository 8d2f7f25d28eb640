"""The stage `settle`: nodes get a sum over all nodes, and contribute to the next one."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.stages.open import OpenedSum
from dubhe_flwr.protocol.coordinator.stages.refused import Refused, is_refused
from dubhe_flwr.protocol.coordinator.stages.register import RegisteredNodes
from dubhe_flwr.protocol.plan import Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.messages import SettleReply, SettleRequest, Stage
from dubhe_flwr.protocol.wire.terms import SETTLEMENT


@dataclass(frozen=True)
class Settle(Awaiting):
    """Nodes were sent the last sum and asked to continue with the rule."""

    registered: RegisteredNodes

    @classmethod
    def begin(cls, context: Context, opened: OpenedSum) -> tuple[Context, "Settle | Epoch"]:
        """Send the nodes the last sum, unless the rule needs no further one."""
        registered = opened.registered
        terms, last = registered.joined.invitation.terms, registered.last_sum
        num_sums = terms.rule.num_sums(terms.frame, registered.num_registered)
        # If a rule has only one sum, nodes read it when they draw. If it has several, nodes also
        # read the last one here, and report that the rule is settled and what it found.
        if num_sums <= max(1, last.exchange):
            return _epoch(context, registered)
        requests = dict.fromkeys(registered.distributions, last)
        context, batch = context.batch(
            registered.joined.invitation.identity, Stage.SETTLE, requests
        )
        return context, cls(batch, registered)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, RegisteredNodes | Epoch | Refused]:
        """Add up the contributions; a node that misses an exchange leaves the epoch."""
        registered = self.registered
        terms = registered.joined.invitation.terms
        size = terms.vault.vector_bytes(SETTLEMENT)

        def refuse(_node_id: int, reply: SettleReply) -> str | None:
            fits = reply.contribution is None or len(reply.contribution) == size
            return None if fits else "wrong size of ciphertexts"

        accepted, report = accept_replies(self.batch, replies, refuse)
        if is_refused(context, report):
            names = [registered.joined.aliases[n] for n in registered.committee]
            if names:
                context = context.noted(f"The committee was {', '.join(names)}.")
            return context.reported(report), Refused(
                report, False, tuple(registered.distributions), registered.committee
            )
        vectors = {
            node_id: reply.contribution
            for node_id, reply in accepted.items()
            if reply.contribution is not None
        }
        settled = {n: reply for n, reply in accepted.items() if reply.contribution is None}
        if len(settled) > len(vectors):
            context = context.reported(report.without(vectors, "not settled"))
            context.check_quorum(len(settled), "settled", None)
            finding = Counter(reply.finding for reply in settled.values()).most_common(1)[0][0]
            return _epoch(context, _of(registered, settled), finding)
        context, members, total = context.summed(
            terms.vault.adder(registered.public, SETTLEMENT),
            vectors,
            report.without(settled, "settled too early"),
            "registered and went on with the rule",
        )
        last = SettleRequest(total, len(members), registered.last_sum.exchange + 1)
        return context, replace(_of(registered, members), last_sum=last)


def _of(registered: RegisteredNodes, node_ids: Collection[int]) -> RegisteredNodes:
    """Return the registered nodes, restricted to `node_ids`."""
    kept = {n: vector for n, vector in registered.distributions.items() if n in node_ids}
    return replace(registered, distributions=kept)


def _epoch(
    context: Context, registered: RegisteredNodes, finding: tuple[float, ...] = ()
) -> tuple[Context, Epoch]:
    joined, node_ids = registered.joined, registered.distributions
    number, invitation = registered.num_registered, joined.invitation
    if invitation.terms.rule.can_continue(number, invitation.announced.num_volunteers(number)):
        run = replace(context.run, continued=invitation.identity, settled=frozenset(node_ids))
        context = replace(context, run=run)
    return context, Epoch(
        invitation=joined.invitation,
        first_round=context.server_round,
        aliases={node_id: joined.aliases[node_id] for node_id in node_ids},
        public=registered.public,
        distributions=tuple(node_ids.values()),
        last_sum=registered.last_sum,
        num_registered=registered.num_registered,
        finding=finding,
        committee=registered.committee,
    )
