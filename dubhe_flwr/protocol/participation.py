"""Participation on the server: the nodes of an epoch draw, agents determine, and a plan comes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import compress, islice

import numpy as np

from dubhe_flwr.protocol.determination import Determination
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import ParticipateReply, ParticipateRequest, Stage
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Plan, Replies
from dubhe_flwr.protocol.renewal import draws_charged, draws_left, num_rounds_of, num_tries_of
from dubhe_flwr.protocol.rounds import DrawnRound, drawn_rounds, participants
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState, check_quorum, noted, reported, send

__all__ = ["Participation"]

Step = tuple[CoordinatorState, Batch | Plan | None]


class Participation:
    """Selects in a settled epoch: the stages participate and determine.

    Each call returns the next batch, or who trains; None where too few nodes know the epoch of a
    checkpoint, so that all have to register anew.

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._determination = Determination(settings)

    def begin(self, state: CoordinatorState, epoch: Epoch) -> Step:
        """Ask all registered nodes that are there to draw, if the round is not drawn yet."""
        drawn = state.rounds.get(state.server_round)
        if drawn is not None and not self._may_be_drawn_anew(state, epoch, drawn):
            return self._plan(state, epoch)
        num_tries = num_tries_of(self.settings, epoch)
        num_rounds = min(
            self.settings.rounds_per_draw,
            epoch.first_round + num_rounds_of(self.settings, epoch) - state.server_round,
            draws_left(self.settings, epoch) // draws_charged(epoch, num_tries),
        )
        request = ParticipateRequest(
            overall_registry=epoch.overall_registry,
            num_registered=len(epoch.registered),
            probabilities=epoch.probabilities or b"",
            first_round=state.server_round,
            num_rounds=num_rounds,
            num_tries=num_tries,
            candidate=epoch.candidate or 0,
        )
        here = [node_id for node_id in epoch.registered if node_id in state.present]
        if state.restored and len(here) < self.settings.quorum:
            return state, None
        check_quorum(state, len(here), "registered and there", self.settings.quorum)
        epoch = replace(
            epoch, num_draws=epoch.num_draws + draws_charged(epoch, num_rounds * num_tries)
        )
        state = replace(state, epoch=epoch)
        return send(state, epoch.identity, Stage.PARTICIPATE, dict.fromkeys(here, request))

    def _may_be_drawn_anew(self, state: CoordinatorState, epoch: Epoch, drawn: DrawnRound) -> bool:
        """Tell whether too few are there of those who drew, and enough of those who may yet."""
        here = _who_may_train(state)
        if self._num_willing(epoch, drawn, here) == self.settings.quorum:
            return False
        no = {epoch.registered[index] for index in drawn.unwilling}
        enough = len(here.intersection(epoch.registered) - no) >= self.settings.quorum
        needed = draws_charged(epoch, num_tries_of(self.settings, epoch))
        return enough and draws_left(self.settings, epoch) >= needed

    def _num_willing(self, epoch: Epoch, drawn: DrawnRound, here: frozenset[int]) -> int:
        """Count those who drew and are there, but no more of them than are needed."""
        willing = filter(here.__contains__, compress(epoch.registered, drawn.available))
        return sum(1 for _ in islice(willing, self.settings.quorum))

    def step(self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies) -> Step:
        """Go on with the replies to the last batch, until it is known who trains."""
        follow: dict[str, Callable[[CoordinatorState, Epoch, Batch, Replies], Step]] = {
            Stage.PARTICIPATE: self._on_participate,
            Stage.DETERMINE: self._on_determine,
        }
        return follow[batch.header.stage](state, epoch, batch, replies)

    def _on_participate(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        request = next(iter(batch.requests.values()))
        assert isinstance(request, ParticipateRequest)  # noqa: S101 - as sent above
        num_bits = request.num_rounds * request.num_tries

        def refuse(_node_id: int, reply: ParticipateReply) -> str | None:
            fits = len(reply.decisions) == -(-num_bits // 8)
            # A node that cannot tell whether its labels have moved leaves the last bit out.
            masks = -(-request.num_rounds // 8), request.num_rounds // 8 + 1
            return None if fits and len(reply.unwilling) in masks else "wrong number of draws"

        accepted, report = accept_replies(batch, replies, refuse)
        state = replace(reported(state, report), failed_agents=frozenset(), attempt=0)
        drawn = drawn_rounds(epoch, request, accepted)
        this_round = drawn[state.server_round]
        may_train = map(state.eligible.__contains__, epoch.registered)
        allowed = np.fromiter(may_train, bool, len(epoch.registered))
        this_round = replace(this_round, available=this_round.available & allowed)
        drawn[state.server_round] = this_round
        if report.dropped.get("error reply") or epoch.refused:
            refused = (n for n in batch.requests if isinstance(replies.get(n), NodeFailure))
            epoch = replace(epoch, refused=frozenset(refused))
        moved = _who_moved(accepted, request.num_rounds)
        if not moved <= epoch.moved:
            epoch = replace(epoch, moved=epoch.moved | moved)
        no = {epoch.registered[index] for index in this_round.unwilling}
        no |= state.unwilling - accepted.keys()
        state = replace(
            state, epoch=epoch, rounds={**state.rounds, **drawn}, unwilling=frozenset(no)
        )
        willing = int(this_round.available.sum())
        if state.restored and willing < self.settings.quorum:
            return state, None
        state = replace(state, restored=False)
        check_quorum(state, willing, "registered and willing", self.settings.quorum)
        return self._or_plan(*self._determination.begin(state, epoch, drawn))

    def _on_determine(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        return self._or_plan(*self._determination.step(state, epoch, batch, replies))

    def _or_plan(self, state: CoordinatorState, batch: Batch | None) -> Step:
        if batch is not None:
            return state, batch
        assert state.epoch is not None  # noqa: S101 - its rounds have just been determined
        return self._plan(state, state.epoch)

    def _plan(self, state: CoordinatorState, epoch: Epoch) -> tuple[CoordinatorState, Plan]:
        server_round, drawn = state.server_round, state.rounds[state.server_round]
        here = _who_may_train(state)
        chosen = participants(epoch, drawn, here, state.seed, server_round)
        num_willing = self._num_willing(epoch, drawn, here)
        check_quorum(state, num_willing, "registered, willing and there", self.settings.quorum)
        wanted = self.settings.num_participants
        if len(chosen) < wanted:
            state = noted(state, f"Only {len(chosen)} of {wanted} clients can train.")
        plan = Plan(
            server_round=server_round,
            participants=chosen,
            aliases=tuple(epoch.aliases[node_id] for node_id in chosen),
            epoch=epoch.identity,
            num_registered=len(epoch.registered),
            num_selections=len(drawn.selections),
            chosen=drawn.chosen or (),
            thresholds=epoch.parameters.candidates[epoch.candidate or 0],
            notes=state.notes,
            stages=state.stages,
        )
        return replace(state, batch=None, asked_about={}), plan


def _who_may_train(state: CoordinatorState) -> frozenset[int]:
    same = state.present is state.eligible
    return state.present if same else state.present & state.eligible


def _who_moved(replies: Mapping[int, ParticipateReply], num_rounds: int) -> set[int]:
    """Return the nodes that say, in the bit after those of the rounds, that their labels moved."""
    byte, bit = divmod(num_rounds, 8)
    mask = 0x80 >> bit
    return {
        node_id
        for node_id, reply in replies.items()
        if len(reply.unwilling) > byte and reply.unwilling[byte] & mask
    }
