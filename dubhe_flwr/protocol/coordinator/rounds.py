"""Two states of a round: the nodes have drawn, and the participants are determined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.wire.draws import read_draws
from dubhe_flwr.protocol.wire.messages import ParticipateReply, ParticipateRequest


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """One round for which the nodes have drawn.

    Nodes are given by their index in `Epoch.registered`.
    """

    decisions: NDArray[np.bool_]  # the nodes' own draws, shape (N, H)
    # Answered and willing, and eligible if the round is the one being planned; shape (N,).
    available: NDArray[np.bool_]
    unwilling: tuple[int, ...]  # nodes that will not train in this round


@dataclass(frozen=True, slots=True)
class DeterminedRound:
    """A round whose participants are known.

    Nodes are given by their index in `Epoch.registered`, in ascending order.
    """

    tries: tuple[tuple[int, ...], ...]  # K clients each
    available: tuple[int, ...]  # nodes that may train, also in place of one that has left
    unwilling: tuple[int, ...]  # nodes that will not train in this round
    chosen: int = 0  # index of the try whose clients train

    def participants(
        self, registered: Sequence[int], eligible: frozenset[int], seed: int, server_round: int
    ) -> tuple[int, ...]:
        """Return the node ids of the participants, after replacing nodes that are not eligible.

        Replacements are drawn uniformly from the registered nodes that are willing and eligible.
        The ids are ordered by alias.
        """
        chosen = self.tries[self.chosen]
        kept = [index for index in chosen if registered[index] in eligible]
        if len(kept) < len(chosen):
            rest = sorted(set(self.available).difference(chosen))
            others = [index for index in rest if registered[index] in eligible]
            missing = min(len(chosen) - len(kept), len(others))
            rng = generator(seed, "replace", server_round)
            kept = sorted([*kept, *rng.choice(others, missing, replace=False).tolist()])
        return tuple(registered[index] for index in kept)

    def willing(self, registered: Sequence[int], among: frozenset[int]) -> list[int]:
        """Return which of some nodes drew, and were willing and eligible at that time."""
        return [registered[i] for i in self.available if registered[i] in among]


def drawn_rounds(
    registered: Sequence[int], replies: Mapping[int, ParticipateReply], request: ParticipateRequest
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw; nodes that did not answer are not available."""
    told, declined = read_draws(list(replies.values()), request)
    row_of = {node_id: row for row, node_id in enumerate(registered)}
    rows = [row_of[node_id] for node_id in replies]
    decisions = np.zeros((len(registered), *told.shape[1:]), dtype=bool)
    available, unwilling = np.zeros((2, *decisions.shape[:2]), dtype=bool)
    decisions[rows], available[rows], unwilling[rows] = told, ~declined, declined
    return {
        request.first_round + offset: DrawnRound(
            decisions[:, offset],
            available[:, offset],
            tuple(np.flatnonzero(unwilling[:, offset]).tolist()),
        )
        for offset in range(request.num_rounds)
    }
