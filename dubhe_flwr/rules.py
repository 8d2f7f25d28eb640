"""Participation rules: how likely a node volunteers."""

from dubhe_flwr.protocol.rules import (
    Paper,
    Population,
    Rule,
    Settled,
    Slots,
    Unsettled,
    register_rule,
)

__all__ = ["Paper", "Population", "Rule", "Settled", "Slots", "Unsettled", "register_rule"]
