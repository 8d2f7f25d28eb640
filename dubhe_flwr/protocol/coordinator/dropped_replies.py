"""Counts the reasons for dropped replies, and says what an operator or owner can change."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dubhe_flwr.protocol.plan import ERROR_REPLY, StageReport
from dubhe_flwr.protocol.replies import DAYS_LIMIT
from dubhe_flwr.protocol.wire.announced import JoinStatus
from dubhe_flwr.protocol.wire.messages import Stage

WAIT: Final = (
    "wait for more nodes that are willing and eligible, or raise stage_timeout if replies are late"
)
NOT_SIGNED: Final = "join key not signed by a trusted node"
_NOT_REACHED: Final = (
    "see a node's log; if Dubhe wrote nothing there, add DubheMod as the first of the mods of a "
    "ClientApp with client_fn, or call register_dubhe for one with @app.train()"
)
_REMEDIES: Final = {
    ERROR_REPLY: "see the nodes' logs",
    NOT_SIGNED: "give these nodes signing_key and trusted_keys, and the server the same list, or "
    "leave out trusted_keys of Dubhe",
    DAYS_LIMIT: "ask the nodes' owners to raise max_epochs_per_day and max_draws_per_day (of "
    "DubheMod or register_dubhe), have agents choose from fewer tries, or continue tomorrow (UTC)",
    JoinStatus.NO_DATA.reason: "label_counts returned only zeros; make it read the node's data",
    JoinStatus.REFUSES_PARAMETERS.reason: "see a node's log; set key_bits and min_cohort to what "
    "the nodes ask for (min_key_bits, max_key_bits and min_cohort of DubheMod or register_dubhe), "
    "choose a rule that works with their number of classes, or ask the owners of nodes with pinned "
    "keys to allow exact sums (exact_sums=True)",
    JoinStatus.RULE_NOT_KNOWN.reason: "make the ClientApp import the module that registers the "
    "rule, in the server's version",
    JoinStatus.NOT_SIMULATED.reason: "set simulation only if the nodes have simulated=True (in "
    "DubheMod or register_dubhe)",
    JoinStatus.NEEDS_TRUSTED_KEYS.reason: "the nodes pin keys, so give the server the same list "
    "(trusted_keys=load_trusted_keys(...) of Dubhe)",
    JoinStatus.WRONG_NUMBER_OF_CLASSES.reason: "make the rule fit the length of label_counts (the "
    "largest size of reference_set, the shares of target)",
    JoinStatus.INVALID_LABEL_COUNTS.reason: "make label_counts return a list of whole numbers from "
    "0 up, one for each class, and look in a node's log for an error that it raised",
}


def reasons(reports: Sequence[StageReport]) -> list[str]:
    """Return how many replies were dropped for each reason, and the last error of nodes."""
    found: Counter[str] = Counter()
    for report in reports:
        for reason, number in report.dropped.items():
            found[f"{reason} at {report.stage}"] += number
    errors = [report.error for report in reports if report.error]
    counted = (f"{reason}: {number}" for reason, number in found.items())
    return [*counted, *(f"the last error: {error!r:.200}" for error in errors[-1:])]


def remedy(reports: Sequence[StageReport]) -> str | None:
    """Return the remedy for the most frequent reason, if every reason has one."""
    hints: Counter[str | None] = Counter()
    for report in reports:
        is_new = report.stage == Stage.JOIN  # nodes that joined have answered Dubhe before
        for reason, number in report.dropped.items():
            not_reached = is_new and reason == ERROR_REPLY
            hints[_NOT_REACHED if not_reached else _REMEDIES.get(reason)] += number
    return hints.most_common(1)[0][0] if hints and all(hints) else None
