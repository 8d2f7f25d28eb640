"""Blocks of registered nodes, whose sums are checked before they make up an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from dubhe_flwr.core import generator
from dubhe_flwr.he import PublicKey, homomorphic_sum
from dubhe_flwr.protocol.messages import CheckRequest
from dubhe_flwr.protocol.registrations import Registrations

__all__ = ["Blocks", "cut_blocks"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """What nodes registered, cut into blocks.

    Parameters
    ----------
    members : tuple of tuple of int
        The nodes of each block, in the order of their aliases.
    registrations : Registrations
        What they registered, with their replies.
    agents : tuple of int
        Nodes that may check the blocks, in the order in which to ask them.
    num_asked : int (default: 0)
        How many of them were asked.
    passed : tuple of bool (default: none)
        Which blocks add up, by the agent that answered last; empty as long as none did.
    """

    members: tuple[tuple[int, ...], ...]
    registrations: Registrations
    agents: tuple[int, ...]
    num_asked: int = 0
    passed: tuple[bool, ...] = ()

    def request(self, public_key: PublicKey, num_ciphertexts: tuple[int, int]) -> CheckRequest:
        """Return what an agent is asked; every agent of an epoch is asked the same.

        Parameters
        ----------
        public_key : PublicKey
            The epoch's modulus.
        num_ciphertexts : tuple of int
            Ciphertexts of a registry and of a label distribution.
        """
        registries, distributions = (
            b"".join(
                homomorphic_sum(
                    public_key,
                    (getattr(self.registrations.replies[node], name) for node in block),
                    number,
                )
                for block in self.members
            )
            for name, number in zip(("registry", "distribution"), num_ciphertexts, strict=True)
        )
        return CheckRequest(registries, distributions, tuple(map(len, self.members)))

    @property
    def asked(self) -> frozenset[int]:
        """The agents that were given the sums of the blocks."""
        return frozenset(self.agents[: self.num_asked])

    @property
    def all_asked(self) -> bool:
        """Whether no agent is left."""
        return self.num_asked == len(self.agents)

    @property
    def num_kept(self) -> int:
        """How many nodes are in blocks that add up."""
        return sum(len(members) for members in compress(self.members, self.passed))


def cut_blocks(
    node_ids: Sequence[int], block_size: int, max_blocks: int, seed: int, server_round: int
) -> tuple[tuple[int, ...], ...]:
    """Cut nodes into random blocks of at least a size, as many as there may be.

    Parameters
    ----------
    node_ids : sequence of int
        At least `block_size` nodes.
    block_size : int
        Fewest nodes in a block.
    max_blocks : int
        Most blocks.
    seed, server_round : int
        Fix the blocks.

    Returns
    -------
    tuple of tuple of int
        The nodes of each block, in the order in which they were given. The sizes differ by at
        most 1.

    Examples
    --------
    >>> cut_blocks(range(9), block_size=4, max_blocks=100, seed=1, server_round=1)
    ((0, 1, 3, 5, 7), (2, 4, 6, 8))
    """
    number = max(1, min(len(node_ids) // block_size, max_blocks))
    order = generator(seed, "blocks", server_round).permutation(len(node_ids))
    return tuple(
        tuple(node_ids[index] for index in np.sort(block))
        for block in np.array_split(order, number)
    )
