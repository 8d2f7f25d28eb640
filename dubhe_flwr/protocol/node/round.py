"""A node's part in a round: it draws, and as an agent it chooses the best try or groups."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import private_draws, simulated_draws
from dubhe_flwr.errors import DecryptionError, DubheError, RefusedError
from dubhe_flwr.protocol.node.guards import (
    INVALID_SUM,
    reading_of,
    registration_of,
    spend_draws,
    spend_sums,
)
from dubhe_flwr.protocol.node.memory import Keep, LabelBudget, Membership, Reading, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy, is_willing
from dubhe_flwr.protocol.node.settle import read_sum
from dubhe_flwr.protocol.vaults import Label
from dubhe_flwr.protocol.wire.draws import write_draws
from dubhe_flwr.protocol.wire.messages import (
    DetermineReply,
    DetermineRequest,
    ParticipateReply,
    ParticipateRequest,
)
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, Terms


def participate(
    policy: NodePolicy, joined: Membership, request: ParticipateRequest, keep: Keep
) -> ParticipateReply:
    """Draw, for each round and try, whether the node volunteers."""
    joined, _ = read_sum(policy, joined, request, keep)
    registered = spend_draws(joined, request)
    rounds = range(request.first_round, request.first_round + request.num_rounds)
    unwilling = [not is_willing(policy, server_round) for server_round in rounds]
    probability, budget = _probability(joined, reading_of(registered))
    keep(replace(joined, registered=registered, budget=budget))
    return write_draws(_draws(policy, joined, request) < probability, unwilling)


def _probability(joined: Membership, reading: Reading) -> tuple[float, LabelBudget]:
    """Return the probability with which to draw: an earlier one while the node keeps it.

    The average probability reveals nothing about labels, so the node uses it and does not keep it.
    """
    budget, latest = joined.budget, reading.probability
    num_volunteers = joined.announced.num_volunteers(reading.num_registered)
    share = num_volunteers / reading.num_registered
    is_average, terms = latest == min(1.0, share), joined.terms
    if is_average or terms.rule.sum_budget(terms.frame, num_volunteers) is None:
        return latest, budget
    if budget.keeps_chance:
        return min(1.0, budget.chance * share), budget
    return latest, budget.drawn(latest / share)


def determine(
    policy: NodePolicy, joined: Membership, request: DetermineRequest, keep: Keep
) -> DetermineReply:
    """Decrypt the sums of each round, and choose its best try or groups.

    A client that registered an invalid ``p_l`` spoils the sums that it is in. The agent skips
    these, and refuses the request only if a round has no valid sum left.
    """
    del policy
    if not joined.announced.has_agent:
        raise RefusedError("Nothing is determined in this epoch.")
    registered = registration_of(joined)
    num_clients = request.num_clients
    size = joined.terms.vault.vector_bytes(DISTRIBUTION)
    if len(request.sums) != size * len(num_clients):
        raise RefusedError("The number of sums is not the announced one.")
    rounds = [slice(*ends) for ends in pairwise(accumulate(request.num_sums, initial=0))]
    _check_sizes(joined, registered, [num_clients[each] for each in rounds])
    registered = spend_sums(registered, len(num_clients))
    keep(replace(joined, registered=registered))
    found = [
        _decrypted(
            joined.terms, registered.keys, request.sums[row * size : (row + 1) * size], number
        )
        for row, number in enumerate(num_clients)
    ]
    try:
        chosen = [_best_of_round(joined, found[each], num_clients[each]) for each in rounds]
    except DubheError:
        raise RefusedError(INVALID_SUM) from None
    return DetermineReply(tuple(chain.from_iterable(chosen)))


def _draws(
    policy: NodePolicy, joined: Membership, request: ParticipateRequest
) -> NDArray[np.float64]:
    """Return uniform numbers, shape (T, H), by round and try."""
    shape = request.num_rounds, request.num_tries
    seed = joined.announced.simulation_seed
    if policy.simulated and seed is not None:
        return simulated_draws(seed, policy.alias, request.first_round, *shape)
    return private_draws(shape[0] * shape[1]).reshape(shape)


def _check_sizes(
    joined: Membership, registered: Registration, rounds: Sequence[Sequence[int]]
) -> None:
    """Refuse sums over the wrong number of clients, or over all but a few clients.

    No client is in two groups of a round, so its groups count together. A server may announce any
    K, so neither this check nor later code allocates K elements unless it received K sums.
    """
    announced = joined.announced
    wanted = set(announced.selection_sizes)
    most = announced.most_covered(reading_of(registered).num_registered)
    for sizes in rounds:
        too_few = len(sizes) < announced.num_wanted
        if (
            too_few
            or not wanted.issuperset(sizes)
            or announced.determination.num_covered(sizes) > most
        ):
            raise RefusedError("The sums cover the wrong number of clients for tries or groups.")


def _decrypted(
    terms: Terms, keys: bytes, total: bytes, num_clients: int
) -> NDArray[np.int64] | None:
    """Return the slots of a sum; None if it cannot be a sum over `num_clients` clients."""
    try:
        found = terms.vault.read(keys, Label(DISTRIBUTION), total, num_clients)
    except DecryptionError:
        return None
    return found if terms.covers(found, num_clients) else None


def _best_of_round(
    joined: Membership, found: Sequence[NDArray[np.int64] | None], num_clients: Sequence[int]
) -> list[int]:
    """Return the best try or groups among the valid ones."""
    announced, rule = joined.announced, joined.terms.rule
    usable = {index: each for index, each in enumerate(found) if each is not None}
    if not usable:
        raise RefusedError(INVALID_SUM)
    indices = list(usable)
    best = announced.determination.choose(
        np.array(list(usable.values())),
        np.array(num_clients)[indices],
        announced.num_participants,
        rule.local_skew,
        rule.target,
    )
    return [indices[index] for index in best]
