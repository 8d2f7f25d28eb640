"""A round that the protocol has to give up: it fails, or its clients are chosen by chance."""

from collections.abc import Callable
from typing import Final, TypeVar

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DubheError, QuorumError, SettingsError
from dubhe_flwr.protocol.coordinator.context import Context, GivenUpError, Planned
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.remedies import REMEDIES_OF_DECLINED, remedy
from dubhe_flwr.protocol.plan import Plan

OutcomeT = TypeVar("OutcomeT")

_OPTION: Final = ' With on_failure="random" such a round goes by chance.'
_BY_CHANCE: Final = "The clients of this round are chosen at random."
_SKIPPED: Final = "Nobody is there to train; this round is skipped."


def or_by_chance(
    context: Context, epoch: Epoch | None, step: Callable[[], tuple[Context, OutcomeT]]
) -> tuple[Context, OutcomeT | Planned]:
    """Take a step of the protocol; choose at random where it fails, if the operator says so.

    It is a `QuorumError` if the round is given up and `on_failure` is "raise", or if no node can
    train for a reason that the operator has to remove.
    """
    raises = context.settings.on_failure == "raise"
    try:
        return step()
    except SettingsError:  # what cannot work does not get better by chance
        raise
    except GivenUpError as error:
        if raises:
            option = "" if remedy(error.context.round.reports) else _OPTION
            raise _failure(error.context, f"{error}{option}") from None
        return _by_chance(error.context, error.epoch, error)
    except DubheError as error:
        if raises:
            raise
        return _by_chance(context, epoch, error)


def _failure(context: Context, sentence: str) -> QuorumError:
    """Return the error with the notes of the round, which nobody else would see."""
    return QuorumError(" ".join([sentence, *dict.fromkeys(context.round.notes)]))


def _by_chance(context: Context, epoch: Epoch | None, error: DubheError) -> tuple[Context, Planned]:
    """Choose K at random from the nodes that are there and did not say no.

    Those that said yes for this round come first: the others may be lost.
    """
    run, this_round = context.run, context.round
    here = this_round.eligible - run.declined - this_round.unwilling
    if not here and remedy(this_round.reports, REMEDIES_OF_DECLINED):
        raise _failure(context, str(error)) from None
    order = context.in_order(here)
    lots = generator(run.seed, "fallback", run.server_round).permutation(len(order)).tolist()
    drawn = sorted(
        (order[lot] for lot in lots), key=lambda node_id: node_id not in this_round.willing
    )
    first = frozenset(drawn[: context.settings.num_participants])
    chosen = tuple(filter(first.__contains__, order))
    context = context.noted(f"{error} {_BY_CHANCE if chosen else _SKIPPED}")
    plan = Plan(
        server_round=run.server_round,
        participants=chosen,
        aliases=tuple(run.aliases.get(node_id, str(node_id)) for node_id in chosen),
        epoch=None if epoch is None else epoch.identity,
        num_registered=0 if epoch is None else len(epoch.registered),
        chosen=(),
        notes=context.round.notes,
        stages=context.round.reports,
        fallback=True,
    )
    return context, Planned(epoch, plan)
