"""What becomes of a round that the protocol has to give up: it fails, or goes by chance."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dubhe_flwr.core import generator
from dubhe_flwr.errors import DubheError, QuorumError, SettingsError
from dubhe_flwr.protocol.plan import Batch, Plan
from dubhe_flwr.protocol.selector import alias_order
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import (
    CoordinatorState,
    RoundGivenUpError,
    declined_for_settings,
    misconfigured,
    noted,
)

__all__ = ["goes_on"]

Step = tuple[CoordinatorState, Batch | Plan]

_OPTION: Final = ' With on_failure="random" such a round goes by chance.'
_BY_CHANCE: Final = "The clients of this round are chosen at random."
_SKIPPED: Final = "Nobody is there to train; this round is skipped."


def goes_on(settings: Settings, state: CoordinatorState, step: Callable[[], Step]) -> Step:
    """Take a step of the protocol; choose at random where it fails, if the operator says so.

    Parameters
    ----------
    settings : Settings
        What the operator decides; `on_failure` counts here.
    state : CoordinatorState
        The state before the step.
    step : callable () -> (CoordinatorState, Batch or Plan)
        The step. An error that is not of this package is a fault of the program, and passes.

    Raises
    ------
    SettingsError
        Whatever `on_failure` is: settings that cannot work do not get better by chance.
    QuorumError
        If the round is given up and `on_failure` is "raise", or no node can train for a reason
        that the operator has to remove.
    """
    try:
        return step()
    except SettingsError:
        raise
    except RoundGivenUpError as error:
        if settings.on_failure == "raise":
            option = "" if misconfigured(error.state) else _OPTION
            raise QuorumError(f"{error}{option}") from None
        return _by_chance(settings, error.state, error)
    except DubheError as error:
        if settings.on_failure == "raise":
            raise
        return _by_chance(settings, state, error)


def _by_chance(
    settings: Settings, state: CoordinatorState, error: DubheError
) -> tuple[CoordinatorState, Plan]:
    """Choose K at random from the nodes that are there and did not say no.

    Those that said yes for this round come first: the others may be lost.
    """
    willing, unwilling = _answers(state)
    here = state.present & state.eligible - state.declined - state.unwilling - unwilling
    if not here and declined_for_settings(state):
        raise QuorumError(str(error)) from None
    # Node ids are random in each run, aliases are not; who is known by none comes last.
    known = alias_order({n: alias for n, alias in state.aliases.items() if n in here})
    order = (*known, *sorted(here.difference(known)))
    lots = generator(state.seed, "fallback", state.server_round).permutation(len(order)).tolist()
    drawn = sorted((order[lot] for lot in lots), key=lambda node_id: node_id not in willing)
    first = frozenset(drawn[: settings.num_participants])
    chosen = tuple(filter(first.__contains__, order))
    state = noted(state, f"{error} {_BY_CHANCE if chosen else _SKIPPED}")
    epoch = state.epoch
    plan = Plan(
        server_round=state.server_round,
        participants=chosen,
        aliases=tuple(state.aliases.get(node_id, str(node_id)) for node_id in chosen),
        epoch=epoch.identity if epoch else b"",
        num_registered=len(epoch.registered) if epoch else 0,
        chosen=(),
        notes=state.notes,
        stages=state.stages,
        fallback=True,
    )
    return replace(state, batch=None, enrolment=None, asked_about={}), plan


def _answers(state: CoordinatorState) -> tuple[set[int], set[int]]:
    """Return who said yes for this round, and who said no."""
    drawn = state.rounds.get(state.server_round)
    if state.epoch is None or drawn is None:
        return set(), set()
    registered = state.epoch.registered
    willing = {n for n, available in zip(registered, drawn.available, strict=True) if available}
    return willing, {registered[index] for index in drawn.unwilling}
