"""How loss-based selectors get losses in a simulation: clients evaluate the current model."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from flwr.common import EvaluateIns, FitRes, Parameters
from flwr.server.client_proxy import ClientProxy
from flwr.server.server import evaluate_clients

from dubhe_flwr.errors import DubheError
from dubhe_flwr.protocol import Batch, Plan, Replies, Selector
from dubhe_lab.baselines.losses import LOSS, RMS_LOSS, LossRequest, LossSelector
from dubhe_lab.baselines.roll_call import Report, RollCallState


class AnsweredSelector(Selector[RollCallState]):
    """Answers a selector's requests for losses, and leaves all other requests to the adapter.

    `ask` returns a reply such as ``{"loss": 0.7}`` for each node id it gets.
    """

    def __init__(self, selector: LossSelector, ask: Callable[[Sequence[int]], Replies]) -> None:
        self.selector = selector
        self._ask = ask

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.selector.num_participants

    def initial_state(self) -> RollCallState:
        """Return the selector's initial state."""
        return self.selector.initial_state()

    def begin_round(
        self,
        state: RollCallState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[RollCallState, Batch | Plan]:
        """Begin a round."""
        return self._answered(*self.selector.begin_round(state, server_round, present, eligible))

    def step(self, state: RollCallState, replies: Replies) -> tuple[RollCallState, Batch | Plan]:
        """Pass on the replies that came through the adapter."""
        return self._answered(*self.selector.step(state, replies))

    def _answered(
        self, state: RollCallState, outcome: Batch | Plan
    ) -> tuple[RollCallState, Batch | Plan]:
        while isinstance(outcome, LossRequest):
            state, outcome = self.selector.step(state, self._ask(list(outcome.requests)))
        return state, outcome

    def take_reports(
        self, state: RollCallState, results: Sequence[tuple[ClientProxy, FitRes]]
    ) -> RollCallState:
        """Pass on the losses that a round's clients report after training."""
        reports = {
            int(getattr(client, "node_id", 0)): Report(
                state.past.num_rounds,
                float(result.metrics[LOSS]),
                float(result.metrics[RMS_LOSS]),
            )
            for client, result in results
        }
        return self.selector.take_reports(state, reports)


def losses_of(clients: Sequence[ClientProxy], parameters: Parameters) -> dict[int, dict[str, Any]]:
    """Return each client's loss on a model, by node id; a failed client is an error."""
    instructions = [(client, EvaluateIns(parameters, {})) for client in clients]
    results, failures = evaluate_clients(instructions, max_workers=None, timeout=None, group_id=0)
    if failures:
        raise DubheError(
            f"{len(failures)} of {len(clients)} clients failed to evaluate the model; see "
            f"Flower's log above ({failures[0]})."
        )
    return {int(getattr(c, "node_id", 0)): {LOSS: float(r.loss)} for c, r in results}
