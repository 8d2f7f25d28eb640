"""Loss-based selection: the server may first ask some clients to evaluate the current model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Batch, Plan, StageReport
from dubhe_lab.baselines.roll_call import Past, Report, RollCall, RollCallState

EVALUATE: Final = "evaluate"
"""The name of these evaluations as a stage in a plan's reports."""

LOSS: Final = "loss"
RMS_LOSS: Final = "rms-loss"
"""Keys of what clients report: the mean loss per sample, and the root mean squared loss."""


Ask: TypeAlias = Callable[[Sequence[int]], Mapping[int, float]]
"""Has nodes evaluate the current model, and returns the loss of each node that answered."""


def _nobody(_node_ids: Sequence[int]) -> Mapping[int, float]:
    raise SettingsError("No model to evaluate; set the selector's `ask` before the first round.")


class LossSelector(RollCall):
    """Selects by losses: for simulation only, since a loss reveals how unusual a client's data is.

    A subclass names the clients that should evaluate the current model before it chooses. Dubhe's
    protocol has no message for this, so the code that holds the model sets `ask`. It also passes
    the losses that clients report after training to `take_reports`.
    """

    def __init__(self, num_participants: int, seed: int | None = None) -> None:
        super().__init__(num_participants, seed)
        self.ask: Ask = _nobody

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

    def _plan(
        self, state: RollCallState, stages: tuple[StageReport, ...]
    ) -> tuple[RollCallState, Batch | Plan]:
        here = [node_id for node_id in state.aliases if node_id in state.eligible]
        if len(here) > self.num_participants:
            aliases = [state.aliases[node_id] for node_id in here]
            rng = generator(state.seed, "candidates", state.server_round)
            asked = [here[index] for index in np.sort(self.candidates(aliases, state.past, rng))]
            if asked:
                answers, this_round = self.ask(asked).items(), state.past.num_rounds + 1
                losses = {node_id: loss for node_id, loss in answers if np.isfinite(loss)}
                reports = {node: Report(this_round, loss, loss) for node, loss in losses.items()}
                silent = [node_id for node_id in asked if node_id not in losses]
                dropped = {"no finite loss": silent} if silent else {}
                report = StageReport(EVALUATE, len(asked), len(losses), dropped, 0, 0)
                state, stages = self.take_reports(state, reports), (*stages, report)
        return super()._plan(state, stages)
