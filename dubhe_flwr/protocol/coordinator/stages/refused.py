"""Replaces an epoch that nodes refuse, or whose committee failed, in the same round."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.coordinator.stages.join import Join
from dubhe_flwr.protocol.plan import ERROR_REPLY, NodeFailure, Replies, StageReport
from dubhe_flwr.protocol.vaults.committee import UNPROVEN

_MAX_RENEWALS: Final = 6
"""How many refused epochs are replaced in one round before it is given up."""


@dataclass(frozen=True)
class Refused:
    """The nodes refused the epoch; `report` covers the stage in which they did so.

    An invalid registration, or a member of the committee, may be the cause only as long as nodes
    read sums. Nodes that refuse to draw later must have forgotten the epoch, so nobody is suspect.
    """

    report: StageReport
    suspects: tuple[int, ...] = ()


@dataclass(frozen=True)
class CommitteeLost:
    """Members of the committee do not answer, or nodes do not accept the committee."""

    members: tuple[int, ...]  # a member that occurs twice has failed twice


def is_refused(context: Context, report: StageReport) -> bool:
    """Return whether the nodes refuse the epoch itself, so that it has to be replaced.

    One invalid registration makes all nodes refuse the sum. A node that restarted without its
    memory does not know the server's epoch; a server restored to an older state does not know the
    nodes' epoch. The epoch is also replaced if errors leave fewer nodes than the quorum.
    """
    if context.round.num_renewals >= _MAX_RENEWALS:
        return False
    too_few = report.accepted < context.settings.least_nodes <= report.accepted + report.num_errors
    return 2 * report.num_errors > report.sent or too_few


def start_afresh(context: Context) -> tuple[Context, Join]:
    """Register again in the same round, as no agent knows how the last epoch ended."""
    note = "No agent passed on the state of the last epoch; all nodes register again."
    return Join.begin(context.noted(note))


def appoint_anew(context: Context, lost: CommitteeLost) -> tuple[Context, Join]:
    """Register again in the same round; later committees avoid these members if possible."""
    names = ", ".join(context.run.aliases.get(n, str(n)) for n in dict.fromkeys(lost.members))
    if context.round.num_renewals >= _MAX_RENEWALS:
        context.give_up(
            f"No committee opens the sums; the last one failed because of {names}.", None
        )
    context = _with_failures(context, lost.members)
    context = context.noted(f"The committee failed because of {names}; all nodes register again.")
    this_round = replace(context.round, num_renewals=context.round.num_renewals + 1)
    return Join.begin(replace(context, round=this_round))


def begin_anew(context: Context, refused: Refused) -> tuple[Context, Join]:
    """Register again in the same round.

    If an invalid registration may be the cause, the next epoch asks half the number of nodes, and
    different nodes if possible. A member of the committee may be the cause as well.
    """
    report = refused.report
    context = context.noted(
        f"{report.num_errors} of {report.sent} nodes refused at {report.stage}; the "
        "epoch ends and all nodes register again."
    )
    run = context.run
    if refused.suspects:
        context = _with_failures(context, refused.suspects)
        run = replace(context.run, num_refused_epochs=run.num_refused_epochs + 1)
    run = replace(run, continued=None)
    this_round = replace(context.round, num_renewals=context.round.num_renewals + 1)
    return Join.begin(replace(context, run=run, round=this_round))


def with_unproven(
    context: Context, committee: Sequence[int], replies: Replies, report: StageReport
) -> Context:
    """Count the complaints of nodes to which a member did not prove a sum.

    A member also gets a failure for each other member that complains. Otherwise it could push the
    other candidates out of later committees by lying to one or two of them.
    """
    refusing = report.lost.get(ERROR_REPLY, ())
    most = context.settings.most_errors(report.sent)
    for member, complaint in zip(committee, UNPROVEN, strict=False):
        complaining = [n for n in refusing if replies[n] == NodeFailure(complaint)]
        are_many = len(complaining) > most
        context = with_complaints(
            context, member, complaining, "has not proved the sum to", are_many=are_many
        )
        accusing = [n for n in committee if n in complaining and n != member]
        context = _with_failures(context, [member] * len(accusing))
    return context


def with_complaints(
    context: Context, member: int, complaining: Collection[int], about: str, *, are_many: bool
) -> Context:
    """Note which nodes complain about what a member did, and count failures for both sides.

    Nobody can tell whether the member or the nodes are lying. A node is believed if it has failed
    no more often than the member. If at least `min_cohort` nodes are believed, the member gets a
    failure. Each complaining node gets one too, unless there are many, which are unlikely to be
    lying.
    """
    if not complaining:
        return context
    aliases, failures = context.run.aliases, context.run.failures
    believed = [n for n in complaining if failures.get(n, 0) <= failures.get(member, 0)]
    is_blamed = len(believed) >= context.settings.min_cohort
    failed = [*([] if are_many else complaining), *([member] if is_blamed else [])]
    context = _with_failures(context, failed)
    names = ", ".join(aliases.get(n, str(n)) for n in complaining)
    return context.noted(
        f"{aliases.get(member, member)} {about} {names}: either this member of the committee or "
        "these nodes are lying."
    )


def _with_failures(context: Context, node_ids: Collection[int]) -> Context:
    """Count a failure for each of these nodes, and two for a node that occurs twice."""
    failures = Counter(context.run.failures) + Counter(node_ids)
    return replace(context, run=replace(context.run, failures=failures))
