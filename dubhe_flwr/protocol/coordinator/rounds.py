"""A round of an epoch, once the nodes have drawn and once it is known who trains."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.wire.draws import Draws


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """One round for which the nodes have drawn.

    Nodes are in the order of `Epoch.registered`, and given by their index in it.
    """

    decisions: NDArray[np.bool_]  # their own draws, shape (N, H)
    available: NDArray[np.bool_]  # which answered, are willing and may be chosen, shape (N,)
    unwilling: tuple[int, ...]  # those that said no


@dataclass(frozen=True, slots=True)
class DeterminedRound:
    """A round whose participants are known.

    Nodes are given by index into `Epoch.registered`, ascending.
    """

    members: tuple[int, ...]  # those that train
    available: tuple[int, ...]  # those that may take the place of a member that has vanished since
    unwilling: tuple[int, ...]  # those that said no
    num_selections: int  # tries or groups among which an agent chose
    chosen: tuple[int, ...]  # indices of the best try or groups

    def participants(
        self, registered: Sequence[int], present: frozenset[int], seed: int, server_round: int
    ) -> tuple[int, ...]:
        """Return who trains, with nodes that have vanished since replaced.

        Replacements are drawn uniformly from the registered nodes that are there and willing. The
        node ids are in the order of their aliases.
        """
        kept = [index for index in self.members if registered[index] in present]
        if len(kept) < len(self.members):
            chosen = set(self.members)
            others = [i for i in self.available if i not in chosen and registered[i] in present]
            missing = min(len(chosen) - len(kept), len(others))
            rng = generator(seed, "replace", server_round)
            kept = sorted([*kept, *rng.choice(others, missing, replace=False).tolist()])
        return tuple(registered[index] for index in kept)

    def willing(self, registered: Sequence[int], present: frozenset[int]) -> list[int]:
        """Return the nodes that drew, are willing and there."""
        return [registered[i] for i in self.available if registered[i] in present]


def drawn_rounds(
    registered: Sequence[int], answered: Sequence[int], draws: Draws, first_round: int
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw; who did not answer is not available."""
    row_of = {node_id: row for row, node_id in enumerate(registered)}
    rows = [row_of[node_id] for node_id in answered]
    decisions = np.zeros((len(registered), *draws.decisions.shape[1:]), dtype=bool)
    available, unwilling = np.zeros((2, *decisions.shape[:2]), dtype=bool)
    decisions[rows], unwilling[rows] = draws.decisions, draws.unwilling
    available[rows] = ~draws.unwilling
    return {
        first_round + offset: DrawnRound(
            decisions[:, offset],
            available[:, offset],
            tuple(np.flatnonzero(unwilling[:, offset]).tolist()),
        )
        for offset in range(decisions.shape[1])
    }
