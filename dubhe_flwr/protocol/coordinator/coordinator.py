"""The server's side of the protocol: a state machine from one stage to the next.

Theory of operation. `begin_round` and `step` take a state and return the next one, together with a
batch of requests to send or the plan of who trains. Between two calls the server is either in a
stage that awaits replies, or at rest between two rounds. Each stage is a class that holds
everything it knows.

A stage has two methods. ``begin`` sends its batch; ``take`` reads the replies. Both return either
an outcome, whose class decides what comes next, or a stage that has sent a batch:

| stage | outcome | next |
|---|---|---|
| rest | none: there is no epoch, or it has ended | `Join` |
| rest | none: the epoch goes on | `Participate` |
| `Join` | `JoinedNodes` | `Appoint` |
| `Appoint` | `ReadyToRegister` | `Register` |
| `Register` | `RegisteredNodes` | `Open` |
| `Open` | `OpenedSum` | `Settle` |
| `Settle` | `RegisteredNodes`: the rule needs another sum | `Open` |
| `Settle` | `DrawsTaken`: the rule is settled, and the nodes have drawn | `Determine` |
| `Participate` | `DrawsTaken` | `Determine` |
| `Determine` | `Epoch`, in which the round is determined | the plan, and rest |
| `Appoint`, `Register`, `Open` | none: an opener has failed | `Join`, again in the same round |
| `Settle`, `Participate` | none: the nodes refuse the epoch | `Join`, again in the same round |
| `Appoint` | none: too few nodes know the last state | `Join`, again in the same round |

A stage that has nothing to ask returns its outcome from ``begin``: `Appoint` in a simulation in the
clear that starts afresh, `Open` without a committee, `Participate` if the round was drawn ahead,
and `Determine` if there is no choice: the server then fills the round up, or trims it, at random.

A stage raises an error if the round cannot go on; `random_fallback` then selects clients at random
or ends the run.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from dubhe_flwr.errors import CheckpointError, DubheError, QuorumError, SettingsError
from dubhe_flwr.protocol.coordinator.context import (
    Awaiting,
    Context,
    CoordinatorState,
    Planned,
    Rest,
    RoundProgress,
    Run,
)
from dubhe_flwr.protocol.coordinator.epoch import Epoch, JoinedNodes, RegisteredNodes
from dubhe_flwr.protocol.coordinator.random_fallback import planned_at_random
from dubhe_flwr.protocol.coordinator.renewal import is_over
from dubhe_flwr.protocol.coordinator.stages.appoint import Appoint, ReadyToRegister
from dubhe_flwr.protocol.coordinator.stages.determine import Determine
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.coordinator.stages.open import Open, OpenedSum
from dubhe_flwr.protocol.coordinator.stages.participate import DrawsTaken, Participate
from dubhe_flwr.protocol.coordinator.stages.register import Register
from dubhe_flwr.protocol.coordinator.stages.settle import Settle
from dubhe_flwr.protocol.plan import Batch, Plan, Replies
from dubhe_flwr.protocol.selector import Selector, check_saved
from dubhe_flwr.protocol.settings import Settings


def _plan(context: Context, epoch: Epoch) -> tuple[Context, Planned]:
    """Make the plan, replacing nodes that have left."""
    server_round, eligible = context.server_round, context.round.eligible
    ready = epoch.rounds[server_round]
    num_willing = len(ready.willing(epoch.registered, eligible))
    context.check_quorum(
        num_willing,
        "registered, willing and connected",
        epoch,
        num_ineligible=len(ready.willing(epoch.registered, context.round.present)) - num_willing,
    )
    chosen = ready.participants(epoch.registered, eligible, context.run.seed, server_round)
    notes, wanted = context.round.notes, context.settings.num_participants
    if len(chosen) < wanted:
        notes = (*notes, f"Only {len(chosen)} of {wanted} clients can train.")
    plan = Plan(
        server_round=server_round,
        participants=chosen,
        aliases=tuple(context.run.aliases[node_id] for node_id in chosen),
        epoch=epoch.identity,
        num_registered=len(epoch.registered),
        num_tries=len(ready.tries),
        chosen=ready.chosen,
        rule=epoch.terms.rule.describe(epoch.finding),
        finding=epoch.finding,
        privacy=epoch.privacy,
        notes=notes,
        stages=context.round.reports,
    )
    return context, Planned(epoch, plan)


_NEXT: Final[Mapping[type, Callable[[Context, Any], tuple[Context, Any]]]] = {
    JoinedNodes: Appoint.begin,
    ReadyToRegister: Register.begin,
    RegisteredNodes: Open.begin,
    OpenedSum: Settle.begin,
    DrawsTaken: Determine.begin,
    Epoch: _plan,
}
"""What follows each outcome: the last column of the table at the top of this module."""


class Coordinator(Selector[CoordinatorState]):
    """Dubhe's selector: encrypted registration, participation and determination."""

    plans_ahead = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def num_participants(self) -> int:
        """``K``."""
        return self.settings.num_participants

    @property
    def least_nodes(self) -> int:
        """The quorum."""
        return self.settings.least_nodes

    def initial_state(self) -> CoordinatorState:
        """Return the state before the first round."""
        seed = self.settings.seed
        return CoordinatorState(Run(seed=secrets.randbits(63) if seed is None else seed))

    def state_dict(self, state: CoordinatorState) -> dict[str, Any]:
        """Return the seed and the last sequence number, which is all that a new process needs."""
        return {"seed": state.run.seed, "sequence": state.run.sequence}

    def load_state_dict(self, saved: dict[str, Any]) -> CoordinatorState:
        """Return a state in which all nodes register again in the next round.

        If the operator set no seed, a run with real nodes draws a new one.
        """
        values = check_saved(saved, {"seed": int, "sequence": int}, "selector")
        seed, sequence = values["seed"], values["sequence"]
        if sequence >= 2**53:
            raise CheckpointError(
                f"selector.sequence: no run sends {sequence} batches; the state was changed or "
                "damaged."
            )
        if self.settings.seed not in {None, seed}:
            raise CheckpointError(
                f"seed={self.settings.seed} is not the seed {seed} of the saved state; use that "
                "one, or none."
            )
        if self.settings.seed is None and self.settings.simulation is None:
            seed = self.initial_state().run.seed
        return CoordinatorState(Run(seed, sequence))

    def begin_round(
        self,
        state: CoordinatorState,
        server_round: int,
        present: Collection[int],
        eligible: Collection[int] | None = None,
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Begin a round: register if that is due, and draw if the round is not drawn yet."""
        is_first = state.run.sequence == 0  # false in a resumed run
        if is_first and self.settings.on_failure != "random":
            self.settings.check_federation(len(present))
        nodes = frozenset(present)
        may = nodes if eligible is None or eligible is present else nodes.intersection(eligible)
        this_round = RoundProgress(nodes, may)
        if (epoch := state.epoch) is not None:
            ahead = {r: ready for r, ready in epoch.rounds.items() if r >= server_round}
            epoch = replace(epoch, rounds=ahead)
            if (ready := ahead.get(server_round)) is not None:
                willing, unwilling = epoch.ids(ready.available), epoch.ids(ready.unwilling)
                this_round = RoundProgress(nodes, may, willing, unwilling)
        run = replace(state.run, server_round=server_round)
        context = Context(self.settings, run, this_round)
        begin: Callable[[Context], tuple[Context, Any]] = Join.begin
        if epoch is not None and not is_over(context, epoch):
            begin = partial(Participate.begin, epoch=epoch)
        return self._go_on(context, epoch, begin)

    def adapted(
        self,
        state: CoordinatorState,
        plan: Plan,
        present: Collection[int],
        eligible: Collection[int],
    ) -> Plan | None:
        """Return the plan, with registered, willing nodes in place of nodes that have left.

        Nodes that were away when the plan was made and are back take part again.
        """
        del plan  # it follows from the state
        if state.epoch is None:
            return None
        nodes = frozenset(present)
        this_round = replace(state.round, present=nodes, eligible=nodes.intersection(eligible))
        context = Context(self.settings, state.run, this_round)
        try:
            _, planned = _plan(context, state.epoch)
        except QuorumError:
            return None
        return planned.plan

    def step(
        self, state: CoordinatorState, replies: Replies
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Continue with the replies to the last batch."""
        stage = state.stage
        if isinstance(stage, Rest):
            raise SettingsError("No batch awaits replies; call begin_round first.")
        context = Context(self.settings, state.run, state.round)
        return self._go_on(context, state.epoch, partial(stage.take, replies=replies))

    @staticmethod
    def _go_on(
        context: Context, epoch: Epoch | None, begin: Callable[[Context], tuple[Context, Any]]
    ) -> tuple[CoordinatorState, Batch | Plan]:
        """Run one stage after the other until one awaits replies or the round is planned."""
        try:
            reached, outcome = begin(context)
            while not isinstance(outcome, Awaiting | Planned):
                reached, outcome = _NEXT[type(outcome)](reached, outcome)
        except DubheError as error:
            reached, outcome = planned_at_random(context, epoch, error)
        if isinstance(outcome, Awaiting):
            return CoordinatorState(reached.run, reached.round, outcome), outcome.batch
        return CoordinatorState(reached.run, reached.round, Rest(outcome.epoch)), outcome.plan
