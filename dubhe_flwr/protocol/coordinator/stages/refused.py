"""An epoch that the nodes refuse ends, and another one begins in the same round."""

from dataclasses import dataclass, replace

from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.plan import StageReport


@dataclass(frozen=True)
class Refused:
    """The nodes refuse the epoch, as the report of its last stage says.

    If they drew in it before, its sum was good: then they have forgotten the epoch, and nobody is
    to blame for what was registered.
    """

    report: StageReport
    has_held: bool
    unwilling: frozenset[int]  # nodes that answered, and will not train in this round


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
    num_refused = context.run.num_refused_epochs + (not refused.has_held)
    return Join.begin(
        replace(
            context,
            run=replace(context.run, num_refused_epochs=num_refused),
            round=replace(
                context.round,
                unwilling=context.round.unwilling | refused.unwilling,
                num_renewals=context.round.num_renewals + 1,
            ),
        )
    )
