"""Calibration on the server: encrypted moments go to an agent, probabilities come back."""

from collections.abc import Callable
from dataclasses import replace

from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import (
    CalibrateReply,
    CalibrateRequest,
    MomentsReply,
    MomentsRequest,
    Stage,
)
from dubhe_flwr.protocol.parameters import MOMENTS, PROBABILITIES
from dubhe_flwr.protocol.plan import Batch, Replies
from dubhe_flwr.protocol.selector import accept_replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import (
    CoordinatorState,
    agents_in_turn,
    heeded,
    noted,
    reported,
    send,
)
from dubhe_flwr.protocol.summing import sum_replies

__all__ = ["Calibration"]

Step = tuple[CoordinatorState, Batch | Epoch]


class Calibration:
    """Settles the probabilities of an epoch: the stages moments and calibrate.

    If it fails, the nodes compute their probabilities by the paper's rule (eq. 6).

    Parameters
    ----------
    settings : Settings
        What the operator decides.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(self, state: CoordinatorState, epoch: Epoch) -> tuple[CoordinatorState, Batch]:
        """Ask all registered nodes for their moments, right after they registered."""
        request = MomentsRequest(
            epoch.overall_registry, len(epoch.registered), epoch.candidate or 0
        )
        requests = dict.fromkeys(epoch.registered, request)
        return send(state, epoch.identity, Stage.MOMENTS, requests)

    def step(self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies) -> Step:
        """Go on with the replies to the last batch, until the probabilities are settled."""
        follow: dict[str, Callable[[CoordinatorState, Epoch, Batch, Replies], Step]] = {
            Stage.MOMENTS: self._on_moments,
            Stage.CALIBRATE: self._on_calibrate,
        }
        return follow[batch.header.stage](state, epoch, batch, replies)

    def _on_moments(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        layout = epoch.parameters.layout
        num_ciphertexts = layout.num_ciphertexts(MOMENTS)

        def vector_of(reply: MomentsReply) -> bytes | None:
            return reply.moments if len(reply.moments) == layout.field_bytes(MOMENTS) else None

        heard = _Heard()
        total, report = sum_replies(
            batch, replies, epoch.public_key, num_ciphertexts, vector_of, heard
        )
        state = reported(state, report)
        if total.num_addends < self.settings.min_cohort:
            return self._give_up(state, epoch, "Too few moments came to calibrate.")
        request = CalibrateRequest(
            overall_registry=epoch.overall_registry,
            num_registered=len(epoch.registered),
            moments=total.value(),
            num_clients=total.num_addends,
            candidate=epoch.candidate or 0,
        )
        agents = [node_id for node_id in epoch.registered if node_id not in epoch.checkers]
        # Who was silent a moment ago would cost a whole timeout: such nodes are asked last.
        silent = epoch.aliases.keys() - heard.node_ids
        in_turn = agents_in_turn(state, agents, "calibrate", epoch.first_round, silent)
        return self._ask_agent(replace(state, calibrators=in_turn, attempt=0), epoch, request)

    def _ask_agent(self, state: CoordinatorState, epoch: Epoch, request: CalibrateRequest) -> Step:
        if state.attempt >= min(self.settings.agent_attempts, len(state.calibrators)):
            return self._give_up(state, epoch, "No agent calibrated.")
        agent = state.calibrators[state.attempt]
        state = replace(state, attempt=state.attempt + 1)
        return send(state, epoch.identity, Stage.CALIBRATE, {agent: request})

    def _on_calibrate(
        self, state: CoordinatorState, epoch: Epoch, batch: Batch, replies: Replies
    ) -> Step:
        layout = epoch.parameters.layout

        def refuse(_node_id: int, reply: CalibrateReply) -> str | None:
            num_ciphertexts = layout.num_ciphertexts(PROBABILITIES)
            fits = epoch.public_key.is_valid(reply.probabilities, num_ciphertexts)
            return None if fits else "invalid ciphertext"

        accepted, report = accept_replies(batch, replies, refuse)
        state = reported(state, report)
        if not accepted:
            ((_, request),) = batch.requests.items()
            assert isinstance(request, CalibrateRequest)  # noqa: S101 - as sent above
            return self._ask_agent(noted(state, "An agent did not calibrate."), epoch, request)
        ((agent, reply),) = accepted.items()
        return self._settle(heeded(state, [agent]), epoch, reply.probabilities)

    def _give_up(self, state: CoordinatorState, epoch: Epoch, why: str) -> Step:
        state = noted(state, f"{why} The nodes take part by the paper's rule.")
        return self._settle(state, epoch, b"")

    @staticmethod
    def _settle(state: CoordinatorState, epoch: Epoch, probabilities: bytes) -> Step:
        epoch = replace(epoch, probabilities=probabilities)
        return replace(state, epoch=epoch, batch=None), epoch


class _Heard:
    """The nodes whose moments are in the sum."""

    def __init__(self) -> None:
        self.node_ids: set[int] = set()

    def clear(self) -> None:
        self.node_ids.clear()

    def take(self, node_id: int, _reply: MomentsReply) -> None:
        self.node_ids.add(node_id)
