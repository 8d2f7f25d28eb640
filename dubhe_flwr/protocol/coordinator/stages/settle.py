"""The stage `settle`: nodes get a sum over all nodes, and contribute to the next one or draw.

The server does not know in advance which sum will settle the rule. So each request also asks for
the draws that the server needs next, and a node draws only if the rule is settled.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dubhe_flwr.protocol.coordinator.context import Awaiting, Context
from dubhe_flwr.protocol.coordinator.epoch import Epoch, RegisteredNodes
from dubhe_flwr.protocol.coordinator.renewal import num_rounds_of
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.open import OpenedSum
from dubhe_flwr.protocol.coordinator.stages.participate import (
    DrawsTaken,
    accept_draws,
    new_draw_request,
    refused_draws,
    with_unwilling,
)
from dubhe_flwr.protocol.coordinator.stages.refused import begin_anew, is_refused, with_complaints
from dubhe_flwr.protocol.plan import Replies, StageReport
from dubhe_flwr.protocol.replies import DAYS_LIMIT, accept_replies
from dubhe_flwr.protocol.vaults.committee import UNPROVEN
from dubhe_flwr.protocol.wire.messages import (
    ParticipateReply,
    ParticipateRequest,
    RuleSum,
    SettleReply,
    SettleRequest,
    Stage,
)
from dubhe_flwr.protocol.wire.terms import SETTLEMENT

_UNSETTLED: Final = "not settled"


@dataclass(frozen=True)
class Settle(Awaiting):
    """Nodes were sent the last sum and asked to continue with the rule."""

    registered: RegisteredNodes
    draw_request: ParticipateRequest

    @classmethod
    def begin(cls, context: Context, opened: OpenedSum) -> tuple[Context, "Settle"]:
        """Send the nodes the last sum, with its proofs if there are any."""
        registered = opened.registered
        num_rounds = num_rounds_of(context.settings, registered)
        draw_request = new_draw_request(context, registered.num_registered, num_rounds)
        request = SettleRequest(registered.last_sum, draw_request)
        requests = dict.fromkeys(registered.distributions, request)
        if opened.proofs:
            requests = {n: replace(request, proofs=opened.proofs[n]) for n in requests}
        identity = registered.joined.identity
        context, batch = context.batch(identity, Stage.SETTLE, requests)
        return context, cls(batch, registered, draw_request)

    def take(
        self, context: Context, replies: Replies
    ) -> tuple[Context, RegisteredNodes | DrawsTaken | Join]:
        """Add up the contributions; a node that misses an exchange leaves the epoch."""
        registered = self.registered
        terms = registered.joined.terms
        num_sums = terms.rule.num_sums(terms.frame)
        is_last = registered.last_sum.number + 1 >= num_sums
        size = 0 if is_last else terms.vault.vector_bytes(SETTLEMENT)

        def refuse(_node_id: int, reply: SettleReply) -> str | None:
            if reply.contribution is not None and is_last:
                return _UNSETTLED
            if reply.contribution is not None and len(reply.contribution) != size:
                return "wrong size of ciphertexts"
            return None if reply.draws is None else refused_draws(self.draw_request, reply.draws)

        accepted, report = accept_replies(self.batch, replies, refuse)
        draws = {n: reply.draws for n, reply in accepted.items() if reply.draws is not None}
        context = with_unwilling(context, self.draw_request, draws)
        context, has_complaints = self._with_complaints(context, replies, report)
        most = context.settings.most_errors(registered.num_registered)
        num_lost = registered.num_registered - report.accepted
        are_lied_to = has_complaints and num_lost > most
        if is_refused(context, report, are_lied_to=are_lied_to):
            if committee := registered.joined.committee:
                context = context.noted(f"The committee was {context.named(committee)}.")
            return begin_anew(context.reported(report), report, registered.joined.asked)
        if has_complaints:
            context = context.with_run(needs_other_committee=True)
        vectors = {
            node_id: reply.contribution
            for node_id, reply in accepted.items()
            if reply.contribution is not None
        }
        settled = {n: reply for n, reply in accepted.items() if reply.contribution is None}
        if is_last or len(settled) > len(vectors):
            report = report.without(vectors, _UNSETTLED)
            return self._drawn(context, settled, draws, report)
        context, answered, total = context.summed(
            partial(terms.vault.add_up, registered.public, [SETTLEMENT]),
            vectors,
            report.without(settled, "settled too early"),
            "registered and continuing with the rule",
        )
        last = RuleSum(total, len(answered), registered.last_sum.number + 1)
        previous = registered.last_sum.sums
        return context, replace(_of(registered, answered), last_sum=last, previous=previous)

    def _with_complaints(
        self, context: Context, replies: Replies, report: StageReport
    ) -> tuple[Context, bool]:
        """Note which members did not prove the sum, and return whether there are any."""
        committee, found = self.registered.joined.committee, False
        for member, complaint in zip(committee, UNPROVEN, strict=False):  # or no committee
            context, complaining = with_complaints(
                context, member, complaint, "has not proved the sum to", replies, report
            )
            found |= bool(complaining)
        return context, found

    def _drawn(
        self,
        context: Context,
        settled: Mapping[int, SettleReply],
        draws: Mapping[int, ParticipateReply],
        report: StageReport,
    ) -> tuple[Context, DrawsTaken]:
        """Begin the epoch with the nodes that settled, and take their draws."""
        context = context.reported(report.without(settled.keys() - draws, DAYS_LIMIT))
        context.check_quorum(len(settled), "registered and ready to draw", None)
        finding = Counter(reply.finding for reply in settled.values()).most_common(1)[0][0]
        registered = _of(self.registered, settled)
        epoch = Epoch(registration=registered, first_round=context.server_round, finding=finding)
        sizes = registered.last_sum.num_clients, registered.num_registered
        if epoch.terms.rule.can_continue(epoch.terms.population(*sizes)):
            context = context.with_run(continued=epoch.identity, settled=frozenset(settled))
        # With fewer nodes left, the sums that agents may decrypt can last for fewer rounds.
        most = num_rounds_of(context.settings, registered)
        num_rounds = min(self.draw_request.num_rounds, most)
        # Draws use up one sequence number per round, as if `participate` had followed.
        context, taken = accept_draws(context.counted(num_rounds), epoch, self.draw_request, draws)
        end = context.server_round + num_rounds
        return context, replace(taken, rounds={r: taken.rounds[r] for r in taken.rounds if r < end})


def _of(registered: RegisteredNodes, node_ids: Collection[int]) -> RegisteredNodes:
    """Return the registered nodes, restricted to `node_ids`."""
    kept = {n: vector for n, vector in registered.distributions.items() if n in node_ids}
    return replace(registered, distributions=kept)
