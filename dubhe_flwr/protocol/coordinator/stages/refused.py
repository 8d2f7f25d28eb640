"""Replaces an epoch that nodes refuse, or whose agent or committee failed, in the same round."""

from collections.abc import Sequence
from typing import Final

from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.coordinator.dropped_replies import reasons
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.plan import ERROR_REPLY, NodeFailure, Replies, StageReport

_MAX_RENEWALS: Final = 6
"""How many epochs that failed are replaced in one round."""


def may_renew(context: Context) -> bool:
    """Return whether another epoch may replace one that fails in this round."""
    return context.round.num_renewals < _MAX_RENEWALS


def is_refused(context: Context, report: StageReport, *, are_lied_to: bool = False) -> bool:
    """Return whether the nodes refuse the epoch itself, so that it has to be replaced.

    One invalid registration makes all nodes refuse the sum. A node that restarted without its
    memory does not know the server's epoch; a server restored to an older state does not know the
    nodes' epoch. The epoch is also replaced if errors leave fewer nodes than the quorum, or if many
    nodes are lost and some of them say that a member lied.
    """
    if not may_renew(context):
        return False
    too_few = report.accepted < context.settings.least_nodes <= report.accepted + report.num_errors
    return are_lied_to or 2 * report.num_errors > report.sent or too_few


def start_afresh(context: Context) -> tuple[Context, Join]:
    """Register again in the same round, as too few nodes know how the last epoch ended."""
    note = "No node passed on the state of the last registration period; all nodes register again."
    return Join.begin(context.noted(note))


def with_other_openers(context: Context, lost: Sequence[int]) -> tuple[Context, Join]:
    """Register again in the same round, with another agent or committee.

    The openers in `lost` do not answer, or nodes do not accept their keys.
    """
    names = context.named(lost)
    context = context.doubting(lost).with_run(needs_other_committee=True)
    if not may_renew(context):
        why = ", ".join(reasons(context.round.reports[-1:]))
        context.give_up(
            f"No sum can be opened; the last attempt failed because of {names} ({why}); see the "
            "logs of these nodes.",
            None,
        )
    return _renewed(
        context.noted(f"No sum can be opened because of {names}; all nodes register again.")
    )


def begin_anew(
    context: Context, report: StageReport, doubted: frozenset[int] = frozenset()
) -> tuple[Context, Join]:
    """Register again in the same round; `report` covers the stage in which nodes refused the epoch.

    If nodes refused a sum, one of the nodes in `doubted` may have lied, perhaps a member of the
    committee. The next epoch then takes half the number of nodes, and different ones if possible.
    Nodes that refuse to draw later must have forgotten the epoch.
    """
    context = context.noted(
        f"{report.num_errors} of {report.sent} nodes refused at {report.stage}, so all "
        "nodes register again."
    )
    run = context.run
    return _renewed(
        context.doubting(doubted).with_run(
            num_refused_epochs=run.num_refused_epochs + bool(doubted),
            needs_other_committee=run.needs_other_committee or bool(doubted),
            continued=None,
        )
    )


def _renewed(context: Context) -> tuple[Context, Join]:
    return Join.begin(context.with_round(num_renewals=context.round.num_renewals + 1))


def with_complaints(  # noqa: PLR0917 - one complaint, and where to look for it
    context: Context, member: int, complaint: str, about: str, replies: Replies, report: StageReport
) -> tuple[Context, list[int]]:
    """Note which nodes complain about a member, and return them.

    Nobody can tell whether the member or these nodes are lying.
    """
    refusing = report.lost.get(ERROR_REPLY, ())
    complaining = [n for n in refusing if replies[n] == NodeFailure(complaint)]
    if complaining:
        context = context.noted(
            f"According to {context.named(complaining)}, {context.named([member])} {about} them: "
            "either it or they are lying."
        )
    return context, complaining
