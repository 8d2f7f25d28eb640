"""How likely a node volunteers: a rule is one class in one module."""

from dubhe_flwr.protocol.rules.paper import Paper
from dubhe_flwr.protocol.rules.prices import Prices
from dubhe_flwr.protocol.rules.rule import (
    Frame,
    Own,
    Population,
    Rule,
    Settled,
    Slots,
    Unsettled,
    announced_rule,
    register_rule,
)

__all__ = [
    "Frame",
    "Own",
    "Paper",
    "Population",
    "Prices",
    "Rule",
    "Settled",
    "Slots",
    "Unsettled",
    "announced_rule",
    "register_rule",
]
