"""Participation rules: how likely a node volunteers."""

from dubhe_flwr.protocol.rules import (
    Frame,
    Own,
    Paper,
    Population,
    Prices,
    Rule,
    Settled,
    Slots,
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
    "Unsettled",
    "register_rule",
]
