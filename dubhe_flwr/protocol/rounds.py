"""The rounds of an epoch: draws become tries, agents determine, vanished nodes are replaced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator, tries_of_round
from dubhe_flwr.he import homomorphic_sum
from dubhe_flwr.protocol.epoch import Epoch
from dubhe_flwr.protocol.messages import DetermineRequest, ParticipateReply, ParticipateRequest
from dubhe_flwr.protocol.parameters import DISTRIBUTION

__all__ = [
    "DrawnRound",
    "choose_agents",
    "determine_requests",
    "drawn_rounds",
    "has_choice",
    "participants",
]


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """One round for which the nodes have drawn.

    Parameters
    ----------
    decisions : ndarray of bool, shape (N, H)
        The nodes' own draws, in the order of `Epoch.registered`.
    available : ndarray of bool, shape (N,)
        Which nodes answered and are willing in this round.
    agent : int or None (default: None)
        Index of the agent, whose own data is in none of the tries; None without determination.
    tries : tuple of ndarray of int64, H times shape (K,) (default: none yet)
        The clients of each try, by index.
    chosen : int or None (default: None)
        Index of the best try; None while no agent has answered.
    """

    decisions: NDArray[np.bool_]
    available: NDArray[np.bool_]
    agent: int | None = None
    tries: tuple[NDArray[np.int64], ...] = ()
    chosen: int | None = None


def drawn_rounds(
    epoch: Epoch, request: ParticipateRequest, replies: Mapping[int, ParticipateReply]
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw from the nodes' bits; who did not answer is not available."""
    shape = (len(epoch.registered), request.num_rounds, request.num_tries)
    decisions = np.zeros(shape, dtype=bool)
    available = np.zeros(shape[:2], dtype=bool)
    for index, node_id in enumerate(epoch.registered):
        if (reply := replies.get(node_id)) is not None:
            bits = np.frombuffer(reply.decisions, dtype=np.uint8)
            decisions[index] = np.unpackbits(bits, count=shape[1] * shape[2]).reshape(shape[1:])
            bits = np.frombuffer(reply.unwilling, dtype=np.uint8)
            available[index] = np.unpackbits(bits, count=shape[1]) == 0
    return {
        request.first_round + offset: DrawnRound(decisions[:, offset], available[:, offset])
        for offset in range(request.num_rounds)
    }


def has_choice(drawn: DrawnRound, num_participants: int) -> bool:
    """Tell whether there are several tries, and beside the agent more than K clients for them."""
    num_tries, num_others = drawn.decisions.shape[1], int(drawn.available.sum()) - 1
    return num_tries > 1 and num_others > num_participants


def choose_agents(
    epoch: Epoch,
    rounds: Mapping[int, DrawnRound],
    num_participants: int,
    seed: int,
    failed: frozenset[int] = frozenset(),
) -> dict[int, DrawnRound]:
    """Give each round its tries, and an agent of its own where there is something to determine.

    The agents of an epoch are a random order of its nodes, a node a round. One that is away, has
    failed or has used up its sums is passed over.

    Parameters
    ----------
    epoch : Epoch
        The epoch, with the sums that each agent was given.
    rounds : mapping of int to DrawnRound
        The rounds to determine.
    num_participants : int
        ``K``.
    seed : int
        The server's seed.
    failed : frozenset of int
        Indices of agents that did not answer.

    Returns
    -------
    dict of int to DrawnRound
        With tries, and either an agent or the first try chosen.
    """
    num_clients = len(epoch.registered)
    order = generator(seed, "agents", epoch.first_round).permutation(num_clients)
    num_sums = [epoch.num_sums.get(node_id, 0) for node_id in epoch.registered]
    prepared: dict[int, DrawnRound] = {}
    for server_round, drawn in rounds.items():
        num_tries = drawn.decisions.shape[1]
        turn = (server_round - epoch.first_round) % num_clients
        agent = next(
            (
                int(index)
                for index in np.roll(order, -turn)
                if drawn.available[index]
                and int(index) not in failed
                and num_sums[index] + num_tries <= epoch.sums_per_agent
            ),
            None,
        )
        eligible = drawn.available.copy()
        if agent is not None and has_choice(drawn, num_participants):
            num_sums[agent] += num_tries
            eligible[agent] = False
        else:
            agent = None
        tries = tries_of_round(drawn.decisions, eligible, num_participants, seed, server_round)
        prepared[server_round] = replace(
            drawn, agent=agent, tries=tuple(tries), chosen=None if agent is not None else 0
        )
    return prepared


def determine_requests(
    epoch: Epoch, rounds: Mapping[int, DrawnRound]
) -> tuple[dict[int, DetermineRequest], dict[int, list[int]]]:
    """Sum the encrypted ``p_l`` of each try, and ask each agent about its rounds.

    Returns
    -------
    requests : dict of int to DetermineRequest
        What to ask, by node id.
    asked : dict of int to list of int
        The rounds that each agent is asked about, in order.
    """
    num_ciphertexts = epoch.parameters.layout.num_ciphertexts(DISTRIBUTION)
    asked: dict[int, list[int]] = {}
    for server_round, drawn in sorted(rounds.items()):
        if drawn.agent is not None:
            asked.setdefault(epoch.registered[drawn.agent], []).append(server_round)

    def total(indices: Iterable[np.int64]) -> bytes:
        vectors = (epoch.distributions[epoch.registered[index]] for index in indices)
        return homomorphic_sum(epoch.public_key, vectors, num_ciphertexts)

    requests = {
        agent: DetermineRequest(
            sums=b"".join(total(indices) for r in asked_about for indices in rounds[r].tries),
            num_rounds=len(asked_about),
            num_tries=len(rounds[asked_about[0]].tries),
            num_clients=len(rounds[asked_about[0]].tries[0]),
        )
        for agent, asked_about in asked.items()
    }
    return requests, asked


def participants(
    epoch: Epoch, drawn: DrawnRound, present: Iterable[int], seed: int, server_round: int
) -> tuple[int, ...]:
    """Return who trains: the chosen try, with nodes that have vanished since replaced.

    Replacements are drawn uniformly from the registered nodes that are there and willing.

    Returns
    -------
    tuple of int
        Node ids in the order of their aliases.
    """
    assert drawn.chosen is not None  # noqa: S101 - a round is determined before it begins
    # Node ids have 64 unsigned bits, which an array of mixed ones would round.
    present = frozenset(present)
    here = np.array([node_id in present for node_id in epoch.registered])
    chosen = np.zeros(len(here), dtype=bool)
    chosen[drawn.tries[drawn.chosen]] = True
    kept = chosen & here
    others = np.flatnonzero(drawn.available & here & ~chosen)
    missing = min(int(chosen.sum() - kept.sum()), others.size)
    kept[generator(seed, "replace", server_round).choice(others, missing, replace=False)] = True
    return tuple(epoch.registered[index] for index in np.flatnonzero(kept))
