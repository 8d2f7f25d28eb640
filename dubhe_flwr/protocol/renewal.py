"""When an epoch ends: how long its nodes and agents last, and when too many are strangers."""

from dubhe_flwr.protocol.epoch import Epoch, Roster
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState

__all__ = [
    "draws_charged",
    "draws_left",
    "is_over",
    "num_rounds_of",
    "num_tries_of",
    "num_tries_of_search",
]


def num_tries_of(settings: Settings, roster: Roster) -> int:
    """Return the draws of a node for a round; no more than an agent may decrypt sums."""
    if settings.determination == "one-off" or roster.parameters.announced.group_size:
        return 1
    return max(1, min(settings.tries, roster.sums_per_agent))


def num_tries_of_search(settings: Settings, roster: Roster) -> int:
    """Return the draws of a node for each candidate; 0 where the search needs none.

    It has to do without where an agent may not decrypt a sum for each candidate.
    """
    candidates = roster.parameters.candidates
    if settings.thresholds != "search-tries" or len(candidates) == 1:
        return 0
    return min(settings.tries, roster.sums_per_agent // len(candidates))


def draws_charged(roster: Roster, num_draws: int) -> int:
    """Return what some draws cost of the budget of the nodes."""
    return roster.parameters.announced.draws_charged(num_draws, len(roster.registered))


def num_rounds_of(settings: Settings, roster: Roster) -> int:
    """Return after how many rounds nodes register anew: at the latest when all agents are spent."""
    interval = settings.registration_interval
    to_decrypt = roster.sums_per_round(num_tries_of(settings, roster))
    if not to_decrypt:
        return interval
    # Who checked blocks is agent no more, and who searched by tries has hardly a sum left.
    searched = num_tries_of_search(settings, roster) > 0
    num_agents = len(roster.aliases.keys() - roster.checkers) - searched
    rounds_of_agents = num_agents * (roster.sums_per_agent // to_decrypt)
    return min(interval, max(1, rounds_of_agents))


def draws_left(settings: Settings, epoch: Epoch) -> int:
    """Return how many draws the budget of the epoch leaves."""
    return settings.max_draws_per_epoch - epoch.num_draws


def is_over(settings: Settings, state: CoordinatorState, epoch: Epoch) -> bool:
    """Tell whether it is time to register anew."""
    # After rounds that were given up, the draws may be spent before the interval is over.
    needed = draws_charged(epoch, num_tries_of(settings, epoch))
    spent = state.server_round not in state.rounds and draws_left(settings, epoch) < needed
    return (
        state.server_round >= epoch.first_round + num_rounds_of(settings, epoch)
        or _many_are_unregistered(settings, state, epoch)
        or spent
    )


def _many_are_unregistered(settings: Settings, state: CoordinatorState, epoch: Epoch) -> bool:
    """Tell whether too many nodes are new, or were lost while they registered.

    Those that were lost count after a while only: what lost them may lose them again.
    """
    many = max(settings.min_cohort, settings.max_unregistered * len(state.present))
    if len(state.present - epoch.asked) >= many:
        return True
    a_while = -(-settings.registration_interval // 5)
    unregistered = state.present - epoch.aliases.keys() - epoch.declined
    return len(unregistered) >= many and state.server_round >= epoch.first_round + a_while
