"""Runs the exchanges of one selection, now or ahead of time, and reports failing nodes."""

from collections import Counter
from collections.abc import Callable, Collection
from logging import ERROR, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.transport import advice_on, log
from dubhe_flwr.errors import QuorumError
from dubhe_flwr.protocol import Batch, NodeFailure, Plan, Replies, Selector

_ERROR: Final = "dubhe: %s: error of %s: %.200r"


def write_log(level: int, line: str) -> None:
    """Write a line to Flower's log."""
    log(level, "%s", line)


class Exchanges:
    """A selector with its state, which advances with every answered batch.

    Parameters
    ----------
    selector : Selector
        The selector.
    state : object
        Its state; the attribute of that name holds the latest one, even after an error.
    write : callable (int, str) -> None
        Receives level and text of each log line about failing nodes.
    """

    def __init__(
        self, selector: Selector[Any], state: Any, write: Callable[[int, str], None]
    ) -> None:
        self.selector = selector
        self.state = state
        self._write = write

    def begin(
        self, server_round: int, present: Collection[int], eligible: Collection[int]
    ) -> Batch | Plan:
        """Begin a round."""
        begun = self.selector.begin_round(self.state, server_round, present, eligible)
        self.state, outcome = begun
        return outcome

    def finish(self, outcome: Batch | Plan, send: Callable[[Batch], Replies]) -> Plan:
        """Send one batch after the other until the round is planned."""
        while isinstance(outcome, Batch):
            replies = send(outcome)
            advice = self._report_failures(outcome, replies)
            try:
                self.state, outcome = self.selector.step(self.state, replies)
            except QuorumError as error:
                raise QuorumError(f"{error} {advice}".strip()) from None
        return outcome

    def _report_failures(self, batch: Batch, replies: Replies) -> str:
        """Report the nodes' most frequent error, and return advice on it, if there is any."""
        reasons = Counter(r.reason for r in replies.values() if isinstance(r, NodeFailure))
        for reason, number in reasons.most_common(1):
            nodes = "1 node" if number == 1 else f"{number} nodes"
            self._write(WARNING, _ERROR % (batch.header.stage, nodes, reason))
            if reason.startswith("label_counts: "):  # a simulated node's owner reads this log
                return reason
            if advice := advice_on(reason):
                self._write(ERROR, f"dubhe: {advice}")
                return f"{advice[0].upper()}{advice[1:]}."
        return ""
