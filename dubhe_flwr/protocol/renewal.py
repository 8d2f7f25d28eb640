"""When an epoch ends: how long its nodes and agents last, and when too many are strangers."""

from typing import Final

from dubhe_flwr.protocol.epoch import Epoch, Roster
from dubhe_flwr.protocol.messages import Stage
from dubhe_flwr.protocol.plan import Batch, NodeFailure, Replies
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.state import CoordinatorState

__all__ = [
    "draws_charged",
    "draws_left",
    "is_over",
    "is_refused",
    "num_rounds_of",
    "num_tries_of",
    "num_tries_of_search",
]

_MAX_RENEWALS: Final = 1
"""How often an epoch is ended in one round because the nodes refuse it."""


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
    checkers = sum(node_id in roster.aliases for node_id in roster.checkers)
    num_agents = len(roster.aliases) - checkers - searched
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
        or _many_are_strangers(settings, state, epoch)
        or spent
    )


def is_refused(settings: Settings, state: CoordinatorState, batch: Batch, replies: Replies) -> bool:
    """Tell whether the nodes refuse the epoch itself, so that only another one helps.

    One false registry makes all nodes refuse the overall one; nodes that were restarted without
    their state, or a server that was set back, do not know each other's epoch.
    """
    fewest = {
        Stage.EXPECT: settings.min_cohort,
        Stage.MOMENTS: settings.min_cohort,
        Stage.PARTICIPATE: settings.quorum,
    }
    stage = Stage(batch.header.stage)
    if stage not in fewest or state.num_renewals >= _MAX_RENEWALS:
        return False
    num_good = num_refusals = 0
    enough = max(fewest[stage], -(-len(batch.requests) // 2))
    for node_id in batch.requests:
        answer = replies.get(node_id)
        if isinstance(answer, NodeFailure):
            num_refusals += 1
        elif answer is not None:
            num_good += 1
            if num_good >= enough:  # whatever the others say
                return False
    too_few = num_good < fewest[stage] <= num_good + num_refusals
    return 2 * num_refusals > len(batch.requests) or too_few


def _many_are_strangers(settings: Settings, state: CoordinatorState, epoch: Epoch) -> bool:
    """Tell whether too many nodes are new, were lost while they registered, or have other labels.

    All but the new ones count after a while only: what lost them may lose them again, and labels
    that always move are no reason to register in every round.
    """
    many = max(settings.min_cohort, settings.max_unregistered * len(state.present))
    num_registered, num_new, num_unregistered = _presence(state.present, epoch)
    room = settings.max_clients - num_registered
    if min(room, num_new) >= many:
        return True
    # Those that went hide those that came, where the run would end without them.
    num_gone = len(epoch.aliases) - len(epoch.refused) - num_registered
    saves = num_registered < settings.quorum <= num_registered + min(room, num_new)
    if saves and num_new + num_gone >= settings.min_cohort:
        return True
    a_while = -(-settings.registration_interval // 5)
    num_moved = len((epoch.moved - epoch.refused) & state.present)
    return min(room, num_unregistered) + num_moved >= many and (
        state.server_round >= epoch.first_round + a_while
    )


def _presence(present: frozenset[int], epoch: Epoch) -> tuple[int, int, int]:
    """Return how many of the nodes that are there are registered, new, and lost or new."""
    if present is epoch.asked:  # nobody came or went, and so nobody has to be looked at
        num_registered = len(epoch.aliases) - len(epoch.refused)
        return num_registered, 0, len(present) - num_registered - len(epoch.declined)
    registered = present & epoch.aliases.keys() - epoch.refused
    unregistered = present - registered - epoch.declined
    return len(registered), len(present - epoch.asked), len(unregistered)
