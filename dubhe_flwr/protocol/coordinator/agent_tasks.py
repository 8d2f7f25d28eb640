"""Cuts a drawn round into tries or groups, and picks the agent that chooses among them.

`Determine` sends the tasks that this module makes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.epoch import Epoch
from dubhe_flwr.protocol.coordinator.rounds import DeterminedRound, DrawnRound
from dubhe_flwr.protocol.determination import Volunteers


@dataclass(frozen=True)
class CutRound:
    """A drawn round, cut into its tries or groups."""

    drawn: DrawnRound
    # Indices of clients: K for each try, or at least `Groups.size` for each group.
    selections: tuple[NDArray[np.int64], ...]
    first: tuple[int, ...]  # used if no agent answers: the first try, or the first groups

    def ready(self, chosen: tuple[int, ...]) -> DeterminedRound:
        """Return the round with the chosen selections as its participants."""
        members = np.unique(np.concatenate([self.selections[index] for index in chosen]))
        return DeterminedRound(
            members=tuple(members.tolist()),
            available=tuple(np.flatnonzero(self.drawn.available).tolist()),
            unwilling=self.drawn.unwilling,
            num_selections=len(self.selections),
            chosen=chosen,
        )


@dataclass(frozen=True)
class AgentTask(CutRound):
    """A round in which an agent chooses the try or groups that train."""

    agent: int  # the node to ask; its own data is in no selection

    def is_answer(self, chosen: Sequence[int]) -> bool:
        """Return whether these are distinct selections with the right number of clients."""
        known = all(0 <= index < len(self.selections) for index in chosen)
        if not known or len(set(chosen)) < len(chosen):
            return False
        sizes = [sum(len(self.selections[i]) for i in each) for each in (chosen, self.first)]
        return sizes[0] == sizes[1]


def agent_task_of(
    epoch: Epoch, drawn: DrawnRound, failed: frozenset[int], seed: int, server_round: int
) -> AgentTask | CutRound:
    """Cut a round into its tries or groups, and pick an agent if there is a choice to make.

    Nodes take turns as agent in a random order, one per round. A node that is unavailable, has
    failed, or has no sums left to decrypt is skipped. A node that was already an agent in the epoch
    comes last: the sums of two rounds may differ by only a few clients.
    """
    announced, registered = epoch.announced, epoch.registered
    to_decrypt = epoch.sums_per_round(drawn.decisions.shape[1])
    order = generator(seed, "agents", epoch.first_round).permutation(len(registered))
    turn = (server_round - epoch.first_round) % len(registered)
    turns = sorted(np.roll(order, -turn), key=lambda index: registered[index] in epoch.num_sums)
    agents = (
        int(index)
        for index in turns
        if drawn.available[index]
        and registered[index] not in failed
        and epoch.num_sums.get(registered[index], 0) + to_decrypt <= epoch.sums_per_agent
    )
    place = next(agents, None) if has_choice(epoch, drawn) else None
    eligible = drawn.available.copy()
    if place is not None:
        eligible[place] = False
    to_cut = Volunteers(
        drawn.decisions,
        eligible,
        announced.num_participants,
        announced.min_cohort,
        seed,
        server_round,
    )
    if place is None:
        return CutRound(drawn, tuple(to_cut.tries()), (0,))
    selections = announced.determination.cut(to_cut, to_decrypt)
    first = tuple(range(announced.num_wanted))
    return AgentTask(drawn, tuple(selections), first, registered[place])


def has_choice(epoch: Epoch, drawn: DrawnRound) -> bool:
    """Return whether an agent has a choice: more than K clients are available besides itself."""
    announced = epoch.announced
    if announced.num_participants > announced.most_covered(epoch.num_registered):
        return False
    num_others = int(drawn.available.sum()) - 1
    to_decrypt = epoch.sums_per_round(drawn.decisions.shape[1])
    return to_decrypt > 0 and num_others > announced.num_participants
