"""Checks that several answers of a node share, and the charges to its daily and agent limits."""

from dataclasses import replace
from typing import Final

from dubhe_flwr.errors import DailyLimitError, RefusedError
from dubhe_flwr.protocol.node.memory import Allowance, Membership, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.wire.announced import sums_per_agent

INVALID_SUM: Final = "The sum is not valid."  # must not say which check failed


def spend_day(
    policy: NodePolicy, allowance: Allowance, today: int, num_epochs: int = 0, num_draws: int = 0
) -> Allowance:
    """Charge a request to the owner's daily limits, which do not bind a simulated node."""
    if allowance.day != today:
        allowance = Allowance(today)
    num_epochs, num_draws = allowance.num_epochs + num_epochs, allowance.num_draws + num_draws
    allowance = Allowance(today, num_epochs, num_draws)
    spent = num_epochs > policy.max_epochs_per_day or num_draws > policy.max_draws_per_day
    if spent and not policy.simulated:
        raise DailyLimitError(
            "This node has reached its owner's max_epochs_per_day or max_draws_per_day."
        )
    return allowance


def registration_of(joined: Membership) -> Registration:
    """Return the node's registration; refuse if it has not registered."""
    if joined.registered is None:
        raise RefusedError("This node has not registered in this registration period.")
    return joined.registered


def settled(joined: Membership) -> Registration:
    """Return the node's registration; refuse unless the sums that it read settled the rule."""
    registered = registration_of(joined)
    if not registered.is_settled:
        raise RefusedError(
            "The rule is not settled: this node has read too few sums of this registration "
            "period, or refused one."
        )
    return registered


def spend_sums(registered: Registration, num_sums: int) -> Registration:
    """Charge sums to the agent's budget; refuse if it is spent."""
    spent = registered.num_sums + num_sums
    if spent > sums_per_agent(registered.num_registered):
        raise RefusedError("This node decrypts no more sums in this registration period.")
    return replace(registered, num_sums=spent)
