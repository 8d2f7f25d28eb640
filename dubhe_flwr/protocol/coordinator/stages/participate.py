"""The stage `participate`: each registered node draws to decide whether it volunteers.

The first draws of an epoch come with `settle`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dubhe_flwr.protocol.coordinator.context import AwaitingInEpoch, Context
from dubhe_flwr.protocol.coordinator.epoch import (
    DeterminedRound,
    DrawnRound,
    Epoch,
    drawn_rounds,
)
from dubhe_flwr.protocol.coordinator.renewal import end_of, num_tries_of
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.refused import begin_anew, is_refused
from dubhe_flwr.protocol.plan import ERROR_REPLY, Replies
from dubhe_flwr.protocol.replies import accept_replies
from dubhe_flwr.protocol.wire.draws import read_draws, sizes_of
from dubhe_flwr.protocol.wire.messages import ParticipateReply, ParticipateRequest, Stage


@dataclass(frozen=True)
class DrawsTaken:
    """Rounds for which the nodes have drawn."""

    epoch: Epoch
    rounds: Mapping[int, DrawnRound]


@dataclass(frozen=True)
class Participate(AwaitingInEpoch):
    """Nodes were asked to draw."""

    request: ParticipateRequest

    @classmethod
    def begin(cls, context: Context, epoch: Epoch) -> tuple[Context, "Participate | Epoch"]:
        """Ask all connected, registered nodes to draw, unless the round is drawn already."""
        ready = epoch.rounds.get(context.server_round)
        if ready is not None and not _may_be_drawn_anew(context, epoch, ready):
            return context, epoch
        rounds_left = end_of(context.settings, epoch) - context.server_round
        request = new_draw_request(context, epoch.num_registered, rounds_left)
        asked = [node_id for node_id in epoch.registered if node_id in context.round.present]
        context.check_quorum(len(asked), "registered and connected", epoch)
        requests, num_rounds = dict.fromkeys(asked, request), request.num_rounds
        context, batch = context.batch(epoch.identity, Stage.PARTICIPATE, requests, num_rounds)
        return context, cls(batch, epoch, request)

    def take(self, context: Context, replies: Replies) -> tuple[Context, DrawsTaken | Join]:
        """Read the draws."""
        epoch, request = self.epoch, self.request

        def refuse(_node_id: int, reply: ParticipateReply) -> str | None:
            return refused_draws(request, reply)

        accepted, report = accept_replies(self.batch, replies, refuse)
        context = with_unwilling(context.reported(report), request, accepted)
        if is_refused(context, report):
            return begin_anew(context, report)
        epoch = replace(epoch, failed=frozenset(report.lost.get(ERROR_REPLY, ())))
        return accept_draws(context, epoch, request, accepted)


def new_draw_request(context: Context, num_registered: int, rounds_left: int) -> ParticipateRequest:
    """Return a request for draws that begin with this round, until the epoch ends."""
    settings = context.settings
    num_rounds = min(settings.rounds_per_draw, rounds_left)
    num_tries = num_tries_of(settings, num_registered)
    return ParticipateRequest(context.server_round, num_rounds, num_tries)


def refused_draws(request: ParticipateRequest, draws: ParticipateReply) -> str | None:
    """Return why a node's draws cannot be used, or None."""
    fits = (len(draws.decisions), len(draws.unwilling)) == sizes_of(request)
    return None if fits else "wrong number of draws"


def with_unwilling(
    context: Context, request: ParticipateRequest, replies: Mapping[int, ParticipateReply]
) -> Context:
    """Return the context, with a record of the nodes that declined this round."""
    _, unwilling = read_draws(list(replies.values()), request)
    said_no = {node_id for node_id, no in zip(replies, unwilling[:, 0], strict=True) if no}
    said_no |= context.round.unwilling - replies.keys()
    return context.with_round(unwilling=frozenset(said_no))


def accept_draws(
    context: Context,
    epoch: Epoch,
    request: ParticipateRequest,
    replies: Mapping[int, ParticipateReply],
) -> tuple[Context, DrawsTaken]:
    """Return the rounds for which nodes drew; give up if too few will train in this one."""
    rounds = drawn_rounds(epoch.registered, replies, request)
    eligible, this_round = context.round.eligible, rounds[context.server_round]
    may_train = np.fromiter(map(eligible.__contains__, epoch.registered), bool)
    num_ineligible = int((this_round.available & ~may_train).sum())
    this_round = replace(this_round, available=this_round.available & may_train)
    rounds[context.server_round] = this_round
    willing = epoch.ids(np.flatnonzero(this_round.available))
    context = context.with_round(willing=willing)
    context.check_quorum(
        len(willing), "registered and willing", epoch, num_ineligible=num_ineligible
    )
    return context.with_run(num_refused_epochs=0, doubts={}), DrawsTaken(epoch, rounds)


def _may_be_drawn_anew(context: Context, epoch: Epoch, ready: DeterminedRound) -> bool:
    """Return whether too few nodes of an earlier draw are left, and enough could draw again."""
    least, eligible = context.settings.least_nodes, context.round.eligible
    if len(ready.willing(epoch.registered, eligible)) >= least:
        return False
    may_draw = eligible.intersection(epoch.registered) - context.round.unwilling
    return len(may_draw) >= least
