"""Runs the exchanges of one selection, now or ahead of time, and logs their outcome."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from logging import ERROR, INFO, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.messages import log
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Replies, Stage
from dubhe_flwr.protocol.selector import Selector

_ERROR: Final = "dubhe: %s: error from %s: %.200r"
_MAX_NAMED: Final = 3  # nodes whose ids a log line shows
_ADVICE: Final = {  # by part of Flower's message for an exception in the ClientApp
    "No evaluate function registered": (
        "the ClientApp has no handlers for Dubhe: write register_dubhe(app, label_counts) below "
        "app = ClientApp(); in such an app, a DubheMod never sees Dubhe's messages, whether in "
        "@app.train(mods=[...]) or in ClientApp(mods=[...])"
    ),
    "Invalid message type": (
        "the ClientApp has no DubheMod: write "
        "ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts)])"
    ),
    "<class '": (
        "the ClientApp raised an exception before Dubhe was asked: make DubheMod the first of "
        "its mods, since earlier mods see Dubhe's messages"
    ),
}


class Exchanges:
    """A selector with its state, which advances with every answered batch.

    Parameters
    ----------
    selector : Selector
        The selector.
    state : object
        The state to start from. The attribute of that name holds the latest state, even after an
        error.
    """

    def __init__(self, selector: Selector[Any], state: Any) -> None:
        self.selector = selector
        self.state = state

    def finish(self, outcome: Batch | Plan, send: Callable[[Batch], Replies]) -> Plan:
        """Send one batch after the other until the round is planned."""
        while isinstance(outcome, Batch):
            replies = send(outcome)
            advice = _report_failures(outcome, replies)
            try:
                self.state, outcome = self.selector.step(self.state, replies)
            except QuorumError as error:
                raise QuorumError(f"{error} {advice}".strip()) from None
        return outcome


def _report_failures(batch: Batch, replies: Replies) -> str:
    """Log the nodes' most frequent error, and return advice on it, if there is any."""
    reasons = Counter(r.reason for r in replies.values() if isinstance(r, NodeFailure))
    for reason, number in reasons.most_common(1):
        log(WARNING, _ERROR, batch.header.stage, counted(number, "node", "nodes"), reason)
        if reason.startswith("label_counts: "):  # a simulated node's owner reads this log
            return reason
        for advice in (advice for part, advice in _ADVICE.items() if part in reason):
            log(ERROR, "dubhe: %s", advice)
            return f"{advice[0].upper()}{advice[1:]}."
    return ""


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
        "dubhe: %s of %s clients selected in %.2f s (from %s)",
        len(plan.participants),
        plan.num_registered,
        seconds,
        counted(plan.num_tries, "tentative selection", "tentative selections"),
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
