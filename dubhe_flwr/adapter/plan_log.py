"""Writes the outcome of a selection to Flower's log."""

from collections.abc import Sequence
from logging import ERROR, INFO, WARNING
from typing import Final

from dubhe_flwr.adapter.transport import log
from dubhe_flwr.protocol import Plan, Stage

_MAX_NAMED: Final = 3  # nodes whose ids a log line shows


def log_plan(plan: Plan, seconds: float) -> None:
    """Log the outcome of a selection, and everything that went wrong."""
    stages = {report.stage for report in plan.stages}
    if Stage.REGISTER in stages and not plan.fallback:
        nodes = counted(plan.num_registered, "node", "nodes")
        log(INFO, "dubhe: a new epoch: %s | %s", nodes, plan.rule)
        if plan.privacy is not None:
            log(INFO, "dubhe: privacy: %s", plan.privacy)
        if len(plan.participants) == plan.num_registered:
            log(WARNING, "dubhe: all %s train: there is nothing to choose", nodes)
    for report in plan.stages:
        for reason, ids in report.lost.items():
            replies = counted(len(ids), "reply", "replies")
            log(
                WARNING, "dubhe: %s: %s dropped: %s (%s)", report.stage, replies, reason, _some(ids)
            )
    for note in plan.notes:
        log(WARNING, "dubhe: %s", note)
    if plan.fallback:
        chosen = counted(len(plan.participants), "client was", "clients were")
        what = f"{chosen} chosen at random" if plan.participants else "nobody trains"
        log(ERROR, "dubhe: round %s was NOT selected by Dubhe: %s", plan.server_round, what)
        return
    log(
        INFO,
        "dubhe: %s of %s clients selected in %.2f s (%s)",
        len(plan.participants),
        plan.num_registered,
        seconds,
        _choice(plan),
    )


def _some(nodes: Sequence[int]) -> str:
    """Name the first few nodes by the ids that Flower shows."""
    more = f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else ""
    return (
        f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes[:_MAX_NAMED]))}{more}"
    )


def _choice(plan: Plan) -> str:
    """Describe what the agent chose from."""
    if len(plan.participants) == plan.num_registered:
        return "there was nothing to choose"
    tries = counted(plan.num_selections, "tentative selection", "tentative selections or groups")
    return f"from {tries}"


def counted(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular if number == 1 else plural}"
