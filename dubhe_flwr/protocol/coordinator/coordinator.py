"""The server's side of the protocol: a state machine from one stage to the next."""

import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol.coordinator.chance import or_by_chance
from dubhe_flwr.protocol.coordinator.context import (
    Awaiting,
    Context,
    CoordinatorState,
    Planned,
    Rest,
    Round,
    Run,
)
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.renewal import is_over
from dubhe_flwr.protocol.coordinator.stages.determine import Determine
from dubhe_flwr.protocol.coordinator.stages.join import Join, Joined
from dubhe_flwr.protocol.coordinator.stages.keygen import Keygen, KeyMade
from dubhe_flwr.protocol.coordinator.stages.participate import Determined, Drawn, Participate
from dubhe_flwr.protocol.coordinator.stages.refused import Refused, begin_anew
from dubhe_flwr.protocol.coordinator.stages.register import Register, Registered
from dubhe_flwr.protocol.coordinator.stages.settle import Settle
from dubhe_flwr.protocol.plan import Batch, Plan, Replies
from dubhe_flwr.protocol.saved import check_saved
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.settings import Settings

Outcome = Joined | KeyMade | Registered | Epoch | Drawn | Determined | Refused
"""What a stage comes to, and with what the next one begins."""


def _enter(context: Context, epoch: Epoch | None) -> tuple[Context, Awaiting | Determined]:
    """Go on in the epoch, or begin a new one if it is time."""
    if epoch is None or is_over(context, epoch):
        return Join.begin(context)
    return Participate.begin(context, epoch)  # at once Determined, where the round is drawn already


def _plan(context: Context, determined: Determined) -> tuple[Context, Planned]:
    """Say who trains."""
    epoch, server_round = determined.epoch, context.server_round
    ready = epoch.rounds[server_round]
    here = context.round.eligible
    num_willing = len(ready.willing(epoch.registered, here))
    context.check_quorum(num_willing, "registered, willing and there", epoch)
    chosen = ready.participants(epoch.registered, here, context.run.seed, server_round)
    wanted = context.settings.num_participants
    if len(chosen) < wanted:
        context = context.noted(f"Only {len(chosen)} of {wanted} clients can train.")
    plan = Plan(
        server_round=server_round,
        participants=chosen,
        aliases=tuple(epoch.aliases[node_id] for node_id in chosen),
        epoch=epoch.identity,
        num_registered=len(epoch.registered),
        num_selections=ready.num_selections,
        chosen=ready.chosen,
        rule=epoch.terms.rule.describe(epoch.finding),
        finding=epoch.finding,
        notes=context.round.notes,
        stages=context.round.reports,
    )
    return context, Planned(epoch, plan)


def _next(  # noqa: PLR0911 - one for each outcome
    context: Context, outcome: Outcome
) -> tuple[Context, Awaiting | Outcome | Planned]:
    """Go from the outcome of a stage to what begins the next one."""
    match outcome:
        case Joined():
            return Keygen.begin(context, outcome)
        case KeyMade():
            return Register.begin(context, outcome)
        case Registered():  # at once an Epoch, where the rule needs no further sum
            return Settle.begin(context, outcome)
        case Epoch():
            return Participate.begin(context, outcome)
        case Drawn():  # at once Determined, where there is nothing to determine
            return Determine.begin(context, outcome)
        case Determined():
            return _plan(context, outcome)
        case _:  # Refused
            return begin_anew(context, outcome)


class Coordinator(Selector[CoordinatorState]):
    """Selects by Dubhe: registration, participation and determination under encryption."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.settings.num_participants

    def initial_state(self) -> CoordinatorState:
        """Return the state before the first round."""
        seed = self.settings.seed
        return CoordinatorState(Run(seed=secrets.randbits(63) if seed is None else seed))

    def state_dict(self, state: CoordinatorState) -> dict[str, Any]:
        """Return the seed, and how many batches were sent: all that is needed to register anew."""
        return {"seed": state.run.seed, "sequence": state.run.sequence}

    def load_state_dict(self, saved: dict[str, Any]) -> CoordinatorState:
        """Return the state before a round in which all nodes register anew.

        The server no longer knows what sums its nodes have read. It counts the next registration
        as one of other nodes, and without a seed of the operator's real nodes get new lots, so that
        others are left out than before.
        """
        values = check_saved(saved, {"seed": int, "sequence": int}, "selector")
        seed, sequence = values["seed"], values["sequence"]
        if sequence >= 2**53:
            raise CheckpointError(
                f"selector.sequence: {sequence} batches were never sent; the state was changed or "
                "damaged."
            )
        if self.settings.seed not in {None, seed}:
            raise CheckpointError(
                f"seed={self.settings.seed} is not the seed {seed} of the saved state; give that "
                "one, or none."
            )
        if self.settings.seed is None and self.settings.simulation is None:
            seed = secrets.randbits(63)
        return CoordinatorState(Run(seed, sequence, has_varied=True))

    def begin_round(
        self,
        state: CoordinatorState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Begin a round: register anew if it is time, draw if the round is not drawn yet."""
        is_first = state.run.sequence == 0  # not of a run that was resumed
        if is_first and self.settings.on_failure != "random":
            self.settings.check_federation(len(present))
        here = frozenset(present)
        may = here if eligible is None or eligible is present else here.intersection(eligible)
        this_round = Round(here, may)
        if (epoch := state.epoch) is not None:
            ahead = {r: ready for r, ready in epoch.rounds.items() if r >= server_round}
            epoch = replace(epoch, rounds=ahead)
            if (ready := ahead.get(server_round)) is not None:
                willing, unwilling = epoch.ids(ready.available), epoch.ids(ready.unwilling)
                this_round = Round(here, may, willing, unwilling)
        run = replace(state.run, server_round=server_round)
        context = Context(self.settings, run, this_round)
        return self._go_on(context, epoch, lambda: _enter(context, epoch))

    def step(
        self, state: CoordinatorState, replies: Replies
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Go on with the replies to the last batch."""
        stage = state.stage
        if isinstance(stage, Rest):
            raise SettingsError("No batch awaits replies; call begin_round first.")
        context = Context(self.settings, state.run, state.round)
        return self._go_on(context, state.epoch, lambda: stage.take(context, replies))

    @staticmethod
    def _go_on(
        context: Context,
        epoch: Epoch | None,
        step: Callable[[], tuple[Context, Awaiting | Outcome]],
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Take a step, and go on to the next stage that awaits replies or to a plan."""

        def follow() -> tuple[Context, Awaiting | Planned]:
            outcome: Awaiting | Outcome | Planned
            reached, outcome = step()
            while not isinstance(outcome, Awaiting | Planned):
                reached, outcome = _next(reached, outcome)
            return reached, outcome

        context, outcome = or_by_chance(context, epoch, follow)
        if isinstance(outcome, Awaiting):
            return CoordinatorState(context.run, context.round, outcome), outcome.batch
        rest = Rest(outcome.epoch)
        return CoordinatorState(context.run, context.round, rest), outcome.plan
