"""Loss-based selection: the server may ask clients to evaluate the current model, then chooses."""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Replies, StageReport
from dubhe_flwr.protocol.plan import ERROR_REPLY
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES, Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest, Stage
from dubhe_lab.baselines.roll_call import Past, Report, RollCall, RollCallState

EVALUATE: Final = "evaluate"
"""The stage of a `LossRequest` in the reports of a plan."""

LOSS: Final = "loss"
RMS_LOSS: Final = "rms-loss"
"""Keys of what clients report: the mean loss per sample, and the root mean squared loss."""


@dataclass(frozen=True)
class LossRequest(Batch):
    """Asks nodes for the loss of the current model on their own data.

    Dubhe's protocol has no such message. The caller keeps this batch, sends the nodes the current
    model in Flower's own evaluate message, and passes `step` a reply such as ``{"loss": 0.7}`` for
    each node. `dubhe_lab.experiments.losses` does this.
    """

    @classmethod
    def to(cls, node_ids: Iterable[int]) -> Self:
        """Return a request to these nodes; its header only identifies the batch."""
        header = Envelope(secrets.token_bytes(EPOCH_ID_BYTES), Stage.HELLO.value, sequence=2)
        return cls(header, dict.fromkeys(node_ids, HelloRequest()))


class LossSelector(RollCall):
    """Selects by losses: for simulation only, since a loss reveals how unusual a client's data is.

    A subclass names the clients that should evaluate the current model before it chooses. The
    losses that clients report after training come in through `take_reports`.
    """

    def candidates(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the indices of clients that should evaluate the current model; none by default.

        `choose` then finds their losses in `Past.reports`, as reports for the coming round.
        """
        del aliases, past, rng
        return np.empty(0, dtype=np.int64)

    def take_reports(self, state: RollCallState, reports: Mapping[int, Report]) -> RollCallState:
        """Return the state with the losses that nodes reported after training in this round."""
        by_alias = {state.aliases[node_id]: report for node_id, report in reports.items()}
        return replace(state, past=state.past.with_reports(by_alias))

    def step(self, state: RollCallState, replies: Replies) -> tuple[RollCallState, Batch | Plan]:
        """Store the aliases or the losses, and continue the round."""
        if not isinstance(state.batch, LossRequest):
            return super().step(state, replies)
        reports: dict[int, Report] = {}
        lost: dict[str, list[int]] = {}
        for node_id in state.batch.requests:
            reply = replies.get(node_id)
            loss = reply.get(LOSS) if isinstance(reply, Mapping) else None
            if isinstance(loss, float) and math.isfinite(loss):
                reports[node_id] = Report(state.past.num_rounds + 1, loss, loss)
            else:
                reason = ERROR_REPLY if isinstance(reply, NodeFailure) else "no reply"
                lost.setdefault(reason if reply is None else ERROR_REPLY, []).append(node_id)
        asked = StageReport(EVALUATE, len(state.batch.requests), len(reports), lost, 0, 0)
        state = replace(self.take_reports(state, reports), batch=None)
        return super()._plan(state, (*state.stages, asked))

    def _plan(
        self, state: RollCallState, stages: tuple[StageReport, ...]
    ) -> tuple[RollCallState, Batch | Plan]:
        here = [node_id for node_id in state.aliases if node_id in state.eligible]
        if len(here) > self.num_participants:
            aliases = [state.aliases[node_id] for node_id in here]
            rng = generator(state.seed, "candidates", state.server_round)
            wanted = self.candidates(aliases, state.past, rng)
            if wanted.size:
                request = LossRequest.to(here[index] for index in np.sort(wanted))
                return replace(state, batch=request, stages=stages), request
        return super()._plan(state, stages)
