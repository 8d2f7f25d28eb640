"""The rounds of an epoch: draws become tries or groups, agents determine them, K train."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator, groups_of_round, tries_of_round
from dubhe_flwr.protocol.epoch import Epoch, Roster
from dubhe_flwr.protocol.messages import DetermineRequest, ParticipateReply, ParticipateRequest

__all__ = [
    "DrawnRound",
    "choose_agents",
    "determine_requests",
    "drawn_rounds",
    "has_choice",
    "is_selection",
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
    selections : tuple of ndarray of int64 (default: none yet)
        The clients of each try or group, by index.
    fallback : tuple of int (default: the first)
        The selections that are taken if no agent answers: the first try, or the first groups.
    chosen : tuple of int or None (default: None)
        The best try or groups; None while no agent has answered.
    unwilling : tuple of int (default: none)
        Nodes that said no for this round, by index into `Epoch.registered`.
    """

    decisions: NDArray[np.bool_]
    available: NDArray[np.bool_]
    agent: int | None = None
    selections: tuple[NDArray[np.int64], ...] = ()
    fallback: tuple[int, ...] = (0,)
    chosen: tuple[int, ...] | None = None
    unwilling: tuple[int, ...] = ()


def drawn_rounds(
    epoch: Epoch, request: ParticipateRequest, replies: Mapping[int, ParticipateReply]
) -> dict[int, DrawnRound]:
    """Return the rounds of a draw from the nodes' bits; who did not answer is not available."""
    shape = (len(epoch.registered), request.num_rounds, request.num_tries)
    decisions = np.zeros(shape, dtype=bool)
    available = np.zeros(shape[:2], dtype=bool)
    unwilling = np.zeros(shape[:2], dtype=bool)
    answered = [row for row, node_id in enumerate(epoch.registered) if node_id in replies]
    if answered:
        in_order = [replies[epoch.registered[row]] for row in answered]
        drawn = _bits([reply.decisions for reply in in_order], shape[1] * shape[2])
        decisions[answered] = drawn.reshape(-1, *shape[1:])
        masks = [reply.unwilling for reply in in_order]
        if shape[1] % 8 == 0:  # one more byte may hold but the bit that labels moved
            masks = [mask[: shape[1] // 8] for mask in masks]
        unwilling[answered] = _bits(masks, shape[1])
        available[answered] = ~unwilling[answered]
    return {
        request.first_round + offset: DrawnRound(
            decisions[:, offset],
            available[:, offset],
            unwilling=tuple(np.flatnonzero(unwilling[:, offset]).tolist()),
        )
        for offset in range(request.num_rounds)
    }


def _bits(packed: Sequence[bytes], count: int) -> NDArray[np.bool_]:
    """Unpack a row of bits of each of some byte strings of one length."""
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1)
    return np.unpackbits(rows, axis=1, count=count).astype(bool)


def has_choice(roster: Roster, drawn: DrawnRound) -> bool:
    """Tell whether there is anything to determine, and beside the agent more than K clients."""
    num_others = int(drawn.available.sum()) - 1
    several = roster.sums_per_round(drawn.decisions.shape[1]) > 0
    return several and num_others > roster.parameters.announced.num_participants


def is_selection(drawn: DrawnRound, chosen: tuple[int, ...]) -> bool:
    """Tell whether an agent's answer names distinct selections that make up as many clients."""
    known = all(0 <= index < len(drawn.selections) for index in chosen)
    if not known or len(set(chosen)) < len(chosen):
        return False
    sizes = [sum(len(drawn.selections[i]) for i in picked) for picked in (chosen, drawn.fallback)]
    return sizes[0] == sizes[1]


def choose_agents(
    roster: Roster,
    rounds: Mapping[int, DrawnRound],
    seed: int,
    failed: frozenset[int] = frozenset(),
) -> dict[int, DrawnRound]:
    """Give each round its tries or groups, and an agent where there is something to determine.

    The agents of an epoch are a random order of its nodes, a node a round. One that is away, has
    failed or has used up its sums is passed over.

    Parameters
    ----------
    roster : Roster
        Who is registered, with the sums that each agent was given.
    rounds : mapping of int to DrawnRound
        The rounds to determine.
    seed : int
        The server's seed.
    failed : frozenset of int
        Indices of agents that did not answer.

    Returns
    -------
    dict of int to DrawnRound
        With selections, and either an agent or the fallback chosen.
    """
    registered = roster.registered
    num_clients = len(registered)
    order = generator(seed, "agents", roster.first_round).permutation(num_clients)
    num_sums = dict(roster.num_sums)
    prepared: dict[int, DrawnRound] = {}
    for server_round, drawn in rounds.items():
        to_decrypt = roster.sums_per_round(drawn.decisions.shape[1])
        turn = (server_round - roster.first_round) % num_clients
        agent = next(
            (
                int(index)
                for index in np.roll(order, -turn)
                if drawn.available[index]
                and int(index) not in failed
                and registered[index] not in roster.checkers
                and num_sums.get(registered[index], 0) + to_decrypt <= roster.sums_per_agent
            ),
            None,
        )
        if agent is not None and has_choice(roster, drawn):
            num_sums[registered[agent]] = num_sums.get(registered[agent], 0) + to_decrypt
        else:
            agent = None
        prepared[server_round] = _with_selections(roster, drawn, agent, seed, server_round)
    return prepared


def _with_selections(
    roster: Roster, drawn: DrawnRound, agent: int | None, seed: int, server_round: int
) -> DrawnRound:
    announced = roster.parameters.announced
    num_participants, eligible = announced.num_participants, drawn.available.copy()
    if agent is not None:
        eligible[agent] = False
    fallback: tuple[int, ...] = (0,)
    if announced.group_size and agent is not None:
        selections = groups_of_round(
            drawn.decisions,
            eligible,
            num_participants,
            announced.group_size,
            max_groups=roster.groups_per_round,
            seed=seed,
            server_round=server_round,
        )
        fallback = tuple(range(num_participants // announced.group_size))
    else:
        selections = tries_of_round(
            drawn.decisions,
            eligible,
            num_participants,
            seed,
            server_round,
            draft_by_yes=announced.calibrated,
        )
    return replace(
        drawn,
        agent=agent,
        selections=tuple(selections),
        fallback=fallback,
        chosen=fallback if agent is None else None,
    )


def determine_requests(
    epoch: Epoch, rounds: Mapping[int, DrawnRound]
) -> tuple[dict[int, DetermineRequest], dict[int, list[int]]]:
    """Sum the encrypted ``p_l`` of each try or group, and ask each agent about its rounds.

    Returns
    -------
    requests : dict of int to DetermineRequest
        What to ask, by node id.
    asked : dict of int to list of int
        The rounds that each agent is asked about, in order.
    """
    asked: dict[int, list[int]] = {}
    for server_round, drawn in sorted(rounds.items()):
        if drawn.agent is not None:
            asked.setdefault(epoch.registered[drawn.agent], []).append(server_round)

    requests = {
        agent: DetermineRequest(
            sums=b"".join(
                epoch.sum_of_distributions(indices)
                for r in asked_about
                for indices in rounds[r].selections
            ),
            num_sums=tuple(len(rounds[r].selections) for r in asked_about),
            num_clients=tuple(
                len(indices) for r in asked_about for indices in rounds[r].selections
            ),
        )
        for agent, asked_about in asked.items()
    }
    return requests, asked


def participants(
    epoch: Epoch, drawn: DrawnRound, present: Iterable[int], seed: int, server_round: int
) -> tuple[int, ...]:
    """Return who trains: the chosen try or groups, with nodes that have vanished since replaced.

    Replacements are drawn uniformly from the registered nodes that are there and willing.

    Returns
    -------
    tuple of int
        Node ids in the order of their aliases.
    """
    assert drawn.chosen is not None  # noqa: S101 - a round is determined before it begins
    registered, present = epoch.registered, frozenset(present)
    chosen = np.unique(np.concatenate([drawn.selections[index] for index in drawn.chosen]))
    kept = [index for index in chosen.tolist() if registered[index] in present]
    if len(kept) < chosen.size:  # only then all nodes are looked at
        here = np.fromiter(map(present.__contains__, registered), bool, len(registered))
        here[chosen] = False
        others = np.flatnonzero(drawn.available & here)
        missing = min(chosen.size - len(kept), others.size)
        rng = generator(seed, "replace", server_round)
        kept = sorted([*kept, *rng.choice(others, missing, replace=False).tolist()])
    return tuple(registered[index] for index in kept)
