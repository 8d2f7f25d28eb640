"""Decides when an epoch ends: its interval or its agents are used up, or many nodes are new."""

from dubhe_flwr.protocol.coordinator.context import Context
from dubhe_flwr.protocol.coordinator.epoch import Epoch, RegisteredNodes
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.announced import sums_per_agent


def num_tries_of(settings: Settings, num_registered: int) -> int:
    """Return how many tries a round has: at most one for each sum that an agent may decrypt."""
    return max(1, min(settings.determined.number, sums_per_agent(num_registered)))


def num_rounds_of(settings: Settings, nodes: RegisteredNodes) -> int:
    """Return how many rounds an epoch lasts: at most until all agents have used up their sums."""
    interval, num_registered = settings.registration_interval, nodes.num_registered
    num_tries = num_tries_of(settings, num_registered)
    if num_tries == 1 or not nodes.joined.announced.allows_tries(num_registered):
        return interval
    num_agents = len(nodes.distributions)
    return min(interval, num_agents * (sums_per_agent(num_registered) // num_tries))


def end_of(settings: Settings, epoch: Epoch) -> int:
    """Return the first round after an epoch, unless it ends early."""
    return epoch.first_round + num_rounds_of(settings, epoch.registration)


def is_over(context: Context, epoch: Epoch) -> bool:
    """Return whether the epoch has ended, or too many nodes are new or failed to register.

    Lost nodes count only after a while, because a retry at once may fail for the same reason.
    """
    if context.server_round >= end_of(context.settings, epoch):
        return True
    settings, present, joined = context.settings, context.round.present, epoch.registration.joined
    counted = present - joined.left_out
    registered = counted.intersection(epoch.registered) - epoch.failed
    room = settings.max_registered - len(registered)
    a_while = -(-settings.registration_interval // 5)
    if context.server_round >= epoch.first_round + a_while:
        unregistered = counted - registered - joined.declined
    else:
        unregistered = counted - joined.asked
    many = max(settings.min_cohort, settings.max_unregistered * len(counted))
    if min(room, len(unregistered)) >= many:
        return True
    # If nodes have left, fewer than the quorum or K may remain. In that case, fewer new nodes are
    # enough to start a new registration, and nodes left out of the sample count as new.
    others = present - joined.asked
    num_gone = len(epoch.registered) - len(epoch.failed) - len(registered)
    possible = len(registered) + min(room, len(others))
    needed = (settings.least_nodes, settings.num_participants)
    saves = any(len(registered) < number <= possible for number in needed)
    return saves and len(others) + num_gone >= settings.min_cohort
