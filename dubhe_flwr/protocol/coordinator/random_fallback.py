"""Handles a round that cannot go on: ends the run, or chooses K nodes at random."""

from typing import Final

from dubhe_flwr.core.randomness import shuffled
from dubhe_flwr.errors import DubheError, QuorumError, SettingsError
from dubhe_flwr.protocol.coordinator.context import Context, GivenUpError, Planned
from dubhe_flwr.protocol.coordinator.dropped_replies import remedy
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.plan import Plan

_OPTION: Final = ' Set on_failure="random" to fall back to random selection.'
_BY_CHANCE: Final = "The clients of this round are chosen at random."
_SKIPPED: Final = "No node can train; this round is skipped."


def planned_at_random(
    context: Context, epoch: Epoch | None, error: DubheError
) -> tuple[Context, Planned]:
    """Choose K nodes at random for a round that failed, if `on_failure` is "random".

    They are chosen from the eligible nodes that did not decline. Nodes that said they are willing
    in this round come first, since the others may be unreachable. `context` and `epoch` are from
    before the step that failed; a `GivenUpError` carries newer ones.

    If `on_failure` is "raise", raises the error, or a `QuorumError` with the round's notes if the
    round was given up. In any case, raises a `SettingsError`, since later rounds would raise it
    again, and a `QuorumError` if all nodes declined for a reason that the operator has to fix,
    unless other nodes have registered before, and may come back.
    """
    raises = context.settings.on_failure == "raise"
    if isinstance(error, GivenUpError):
        context, epoch = error.context, error.epoch
    elif raises or isinstance(error, SettingsError):
        raise error
    run, this_round = context.run, context.round
    hint = remedy(this_round.reports)
    never_works = this_round.present <= run.declined and not run.has_registered
    if raises or (never_works and hint):
        option = "" if hint else _OPTION
        # The notes of the round would be lost otherwise.
        sentences = [f"{error}{option}", *dict.fromkeys(this_round.notes)]
        raise QuorumError(" ".join(sentences)) from None
    candidates = this_round.eligible - run.declined - this_round.unwilling
    order = context.in_order(candidates)
    drawn = shuffled(order, run.seed, "fallback", run.server_round)
    line = sorted(drawn, key=lambda node_id: node_id not in this_round.willing)
    first = frozenset(line[: context.settings.num_participants])
    chosen = tuple(filter(first.__contains__, order))
    context = context.noted(f"{error} {_BY_CHANCE if chosen else _SKIPPED}")
    plan = Plan(
        server_round=run.server_round,
        participants=chosen,
        aliases=tuple(run.aliases.get(node_id, str(node_id)) for node_id in chosen),
        epoch=None if epoch is None else epoch.identity,
        num_registered=0 if epoch is None else len(epoch.registered),
        notes=context.round.notes,
        stages=context.round.reports,
        fallback=True,
    )
    return context, Planned(epoch, plan)
