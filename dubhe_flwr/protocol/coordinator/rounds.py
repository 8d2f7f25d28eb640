"""A round of an epoch, once the nodes have drawn and once it is known who trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator
from dubhe_flwr.protocol.wire.messages import ParticipateReply, ParticipateRequest


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """One round for which the nodes have drawn.

    Nodes are in the order of `Epoch.registered`, and given by their index in it.
    """

    decisions: NDArray[np.bool_]  # their own draws, shape (N, H)
    available: NDArray[np.bool_]  # which answered, are willing and may be chosen, shape (N,)
    unwilling: tuple[int, ...]  # those that said no


@dataclass(frozen=True, slots=True)
class ReadyRound:
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
    registered: Sequence[int], request: ParticipateRequest, replies: Mapping[int, ParticipateReply]
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw from the nodes' bits; who did not answer is not available."""
    shape = (len(registered), request.num_rounds, request.num_tries)
    decisions = np.zeros(shape, dtype=bool)
    available = np.zeros(shape[:2], dtype=bool)
    unwilling = np.zeros(shape[:2], dtype=bool)
    answered = [row for row, node_id in enumerate(registered) if node_id in replies]
    if answered:
        in_order = [replies[registered[row]] for row in answered]
        drawn = _bits([reply.decisions for reply in in_order], shape[1] * shape[2])
        decisions[answered] = drawn.reshape(-1, *shape[1:])
        unwilling[answered] = _bits([reply.unwilling for reply in in_order], shape[1])
        available[answered] = ~unwilling[answered]
    return {
        request.first_round + offset: DrawnRound(
            decisions[:, offset],
            available[:, offset],
            tuple(np.flatnonzero(unwilling[:, offset]).tolist()),
        )
        for offset in range(request.num_rounds)
    }


def _bits(packed: Sequence[bytes], count: int) -> NDArray[np.bool_]:
    """Unpack a row of bits of each of some byte strings of one length."""
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1)
    return np.unpackbits(rows, axis=1, count=count).astype(bool)
