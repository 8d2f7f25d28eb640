"""An epoch that the nodes refuse ends, and another one begins in the same round."""

from dataclasses import dataclass, replace
from typing import Final

from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.plan import StageReport

_MAX_RENEWALS: Final = 6
"""How often an epoch is ended in one round because the nodes refuse it."""


@dataclass(frozen=True)
class Refused:
    """The nodes refuse the epoch, as the report of its last stage says.

    If they drew in it before, its sum was good: then they have forgotten the epoch, and nobody is
    to blame for what was registered.
    """

    report: StageReport
    was_drawn: bool


@dataclass(frozen=True)
class CommitteeLost:
    """Members of the committee do not answer, or nodes do not accept it."""

    members: tuple[int, ...]


def is_refused(context: Context, report: StageReport) -> bool:
    """Return whether the nodes refuse the epoch itself, so that only another one helps.

    One false registration makes all nodes refuse the sum; nodes that were restarted without their
    memory, or a server that was set back, do not know each other's epoch. The stage cannot go on
    with fewer replies than `least_nodes` of the settings.
    """
    if context.round.num_renewals >= _MAX_RENEWALS:
        return False
    too_few = report.accepted < context.settings.least_nodes <= report.accepted + report.num_errors
    return 2 * report.num_errors > report.sent or too_few


def appoint_anew(context: Context, lost: CommitteeLost) -> tuple[Context, Join]:
    """Register anew in the same round; the members of this committee come last in the next one."""
    names = ", ".join(context.run.aliases.get(n, str(n)) for n in lost.members)
    if context.round.num_renewals >= _MAX_RENEWALS:
        context.give_up(f"No committee opens the sums; the last one failed at {names}.", None)
    context = context.with_used_agents(lost.members)
    context = context.noted(f"The committee failed at {names}; all register anew.")
    this_round = replace(context.round, num_renewals=context.round.num_renewals + 1)
    return Join.begin(replace(context, round=this_round))


def begin_anew(context: Context, refused: Refused) -> tuple[Context, Join]:
    """Register anew in the same round.

    Where a node may have registered what does not add up, half as many are asked as before, and
    others as far as there are some.
    """
    report = refused.report
    context = context.noted(
        f"{report.num_errors} of {report.sent} nodes refused at {report.stage}; the "
        "epoch ends and all register anew."
    )
    num_refused = context.run.num_refused_epochs + (not refused.was_drawn)
    run = replace(context.run, num_refused_epochs=num_refused)
    this_round = replace(context.round, num_renewals=context.round.num_renewals + 1)
    return Join.begin(replace(context, run=run, round=this_round))
