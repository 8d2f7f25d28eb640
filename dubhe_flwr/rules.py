"""Participation rules (how likely a node is to volunteer) and determination (who is selected)."""

from dubhe_flwr.core.determination import Tries
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.rules.paper import Paper
from dubhe_flwr.protocol.rules.prices import Prices
from dubhe_flwr.protocol.rules.rule import (
    Frame,
    Own,
    Population,
    Rule,
    Settled,
    Unsettled,
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
    "Tries",
    "Unsettled",
    "register_rule",
]
