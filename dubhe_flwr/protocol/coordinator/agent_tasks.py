"""Makes the tries of a drawn round, and picks the agent that chooses among them.

`Determine` sends the tasks that this module makes.
"""

from dataclasses import dataclass

import numpy as np

from dubhe_flwr.core.determination import Clients, Mask, far_apart, fill_or_trim
from dubhe_flwr.core.randomness import generator, shuffled
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound, DrawnRound


@dataclass(frozen=True)
class TriedRound:
    """A drawn round with its tries."""

    drawn: DrawnRound
    tries: tuple[Clients, ...]  # indices of K clients for each try

    def ready(self, chosen: int = 0) -> DeterminedRound:
        """Return the round with one try's clients as participants, by default the first try's."""
        return DeterminedRound(
            trained=tuple(self.tries[chosen].tolist()),
            available=tuple(np.flatnonzero(self.drawn.available).tolist()),
            unwilling=self.drawn.unwilling,
            num_tries=len(self.tries),
            chosen=chosen,
        )


@dataclass(frozen=True)
class AgentTask(TriedRound):
    """A round in which an agent chooses the try whose clients train."""

    agent: int  # the node to ask; its own data is in no try


def agent_task_of(
    epoch: Epoch, drawn: DrawnRound, seed: int, server_round: int
) -> AgentTask | TriedRound:
    """Make the tries of a round, and pick an agent if there is a choice to make.

    Nodes take turns as agent in a random order, one per round. A node that is unavailable or has no
    sums left to decrypt is skipped. A node that was already an agent in the epoch comes last,
    because the sums that it has seen may differ from this round's by only a few clients.
    """
    registered, num_tries = epoch.registered, drawn.decisions.shape[1]
    order = shuffled(range(len(registered)), seed, "agents", epoch.first_round)
    turn = (server_round - epoch.first_round) % len(registered)
    in_turn = [*order[turn:], *order[:turn]]
    agents = (
        index
        for index in sorted(in_turn, key=lambda index: registered[index] in epoch.num_sums)
        if drawn.available[index]
        and epoch.num_sums.get(registered[index], 0) + num_tries <= epoch.sums_per_agent
    )
    place = next(agents, None) if has_choice(epoch, drawn) else None
    eligible = drawn.available.copy()
    if place is not None:
        eligible[place] = False
    tries = _tries_of(epoch, drawn, eligible, seed, server_round)
    if place is None:
        return TriedRound(drawn, tries)
    return AgentTask(drawn, tries, registered[place])


def has_choice(epoch: Epoch, drawn: DrawnRound) -> bool:
    """Return whether an agent has a choice: more than K clients are available besides itself."""
    announced, num_others = epoch.announced, int(drawn.available.sum()) - 1
    return (
        announced.allows_tries(epoch.num_registered)
        and drawn.decisions.shape[1] > 1
        and num_others > announced.num_participants
    )


def _tries_of(
    epoch: Epoch, drawn: DrawnRound, eligible: Mask, seed: int, server_round: int
) -> tuple[Clients, ...]:
    """Return the K clients of each try; an earlier try replaces one that is too close to it."""
    announced = epoch.announced
    tries = [
        fill_or_trim(
            volunteers,
            eligible,
            announced.num_participants,
            generator(seed, "fill-or-trim", server_round, index),
        )
        for index, volunteers in enumerate(drawn.decisions.T)
    ]
    return tuple(far_apart(tries, announced.min_cohort))
