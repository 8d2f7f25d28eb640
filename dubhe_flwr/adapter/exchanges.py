"""Runs the exchanges of one selection, now or ahead of time, and logs their outcome."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from logging import ERROR, INFO, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.messages import log
from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Replies, Stage
from dubhe_flwr.protocol.selector import Selector

_ERROR: Final = "dubhe: %s: error from %s: %.200r"
_MAX_NAMED: Final = 3  # nodes whose ids a log line shows


class Exchanges:
    """A selector with its latest state, which advances with every answered batch."""

    def __init__(self, selector: Selector[Any], state: Any) -> None:
        self.selector = selector
        self.state = state

    def finish(self, outcome: Batch | Plan, send: Callable[[Batch], Replies]) -> Plan:
        """Send one batch after the other until the round is planned."""
        while isinstance(outcome, Batch):
            replies = send(outcome)
            _log_failures(outcome, replies)
            self.state, outcome = self.selector.step(self.state, replies)
        return outcome


def _log_failures(batch: Batch, replies: Replies) -> None:
    """Log the nodes' most frequent error."""
    reasons = Counter(r.reason for r in replies.values() if isinstance(r, NodeFailure))
    for reason, number in reasons.most_common(1):
        log(WARNING, _ERROR, batch.header.stage, counted(number, "node", "nodes"), reason)


def log_plan(plan: Plan, seconds: float) -> None:
    """Log the outcome of a selection, and everything that went wrong."""
    stages = {report.stage for report in plan.stages}
    if Stage.REGISTER in stages and not plan.fallback:
        nodes = counted(plan.num_registered, "node", "nodes")
        log(INFO, "dubhe: a new registration period: %s | %s", nodes, plan.rule)
        if plan.privacy is not None:
            log(INFO, "dubhe: privacy: %s", plan.privacy)
        if len(plan.participants) == plan.num_registered:
            log(WARNING, "dubhe: all %s train: there is nothing to choose", nodes)
    for report in plan.stages:
        for reason, ids in report.lost.items():
            log(
                WARNING,
                "dubhe: %s: %s dropped: %s (%s)",
                report.stage,
                counted(len(ids), "reply", "replies"),
                reason,
                _some(ids, report.aliases),
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
        "dubhe: %s of %s clients selected in %.2f s%s",
        len(plan.participants),
        plan.num_registered,
        seconds,
        f" (the best of {plan.num_tries} tries)" if plan.num_tries > 1 else "",
    )


def _some(nodes: Sequence[int], aliases: Mapping[int, str]) -> str:
    """Name the first few nodes by their aliases, and by the ids that Flower shows."""
    names = []
    for node_id in nodes[:_MAX_NAMED]:
        alias, shown = aliases.get(node_id), str(node_id)
        names.append(shown if alias in {None, shown} else f"{alias} with id {shown}")
    more = f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(names)}{more}"


def counted(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number} {singular if number == 1 else plural}"
