"""A node's part in a round: it draws, and as an agent it chooses the best try."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.determination import scores_of
from dubhe_flwr.core.randomness import private_draws, simulated_draws
from dubhe_flwr.errors import DecryptionError, RefusedError
from dubhe_flwr.protocol.node.memory import Keep, LabelBudget, Membership, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy, is_willing
from dubhe_flwr.protocol.node.settle import INVALID_SUM, registration_of
from dubhe_flwr.protocol.rules.rule import Rule
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.wire.announced import sums_per_agent
from dubhe_flwr.protocol.wire.draws import write_draws
from dubhe_flwr.protocol.wire.messages import (
    DetermineReply,
    DetermineRequest,
    ParticipateReply,
    ParticipateRequest,
)
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION


def settled(joined: Membership) -> Registration:
    """Return the node's registration; refuse unless the sums that it read settled the rule."""
    registered = registration_of(joined)
    if not registered.is_settled:
        raise RefusedError(
            "The rule is not settled: this node has read too few sums of this registration "
            "period, or refused one."
        )
    return registered


def participate(
    policy: NodePolicy, joined: Membership, request: ParticipateRequest, keep: Keep
) -> ParticipateReply:
    """Draw, for each round and try, whether the node volunteers."""
    registered = settled(joined)
    rounds = range(request.first_round, request.first_round + request.num_rounds)
    unwilling = np.array([not is_willing(policy, server_round) for server_round in rounds])
    probability, budget = _probability(joined, registered)
    keep(replace(joined, budget=budget))
    shape, seed = (request.num_rounds, request.num_tries), policy.seed_in(joined.announced)
    if seed is not None:
        draws = simulated_draws(seed, policy.alias, request.first_round, *shape)
    else:
        draws = private_draws(request.num_draws).reshape(shape)
    return write_draws((draws < probability) & ~unwilling[:, None], unwilling)


def _probability(joined: Membership, registered: Registration) -> tuple[float, LabelBudget]:
    """Return the probability to draw with: the latest one, or an earlier one that the node keeps.

    If all nodes have the same probability, it reveals nothing about labels. The node then uses it
    without keeping it.
    """
    budget, latest = joined.budget, registered.probability
    terms, num_participants = joined.terms, joined.announced.num_participants
    population = terms.population(registered.num_registered, registered.num_registered)
    share = num_participants / registered.num_registered
    is_average = latest == min(1.0, num_participants / registered.num_clients)
    if is_average or terms.rule.sum_budget(population) is None:
        return latest, budget
    if budget.keeps_probability:
        return min(1.0, budget.probability * share), budget
    return latest, budget.drawn(latest / share)


def spend_sums(registered: Registration, num_sums: int) -> Registration:
    """Charge sums to the agent's budget; refuse if it is spent."""
    spent = registered.num_sums + num_sums
    if spent > sums_per_agent(registered.num_registered):
        raise RefusedError("This node decrypts no more sums in this registration period.")
    return replace(registered, num_sums=spent)


def determine(
    policy: NodePolicy, joined: Membership, request: DetermineRequest, keep: Keep
) -> DetermineReply:
    """Decrypt the sums of each round, and choose its best try.

    A client that registered an invalid ``p_l`` spoils every sum that includes it. The agent skips
    such sums, and refuses the request only if a round has no valid sum left.
    """
    del policy
    if not joined.announced.has_agent:
        raise RefusedError("No agent chooses among tries in this registration period.")
    registered = settled(joined)
    if not joined.announced.allows_tries(registered.num_registered):
        raise RefusedError("The tries leave out too few clients.")
    size, num_sums = joined.terms.vault.vector_bytes(DISTRIBUTION), sum(request.num_tries)
    if len(request.sums) != size * num_sums:
        raise RefusedError("The number of sums is not the announced one.")
    registered = spend_sums(registered, num_sums)
    keep(replace(joined, registered=registered))
    found = [
        _decrypted(joined, registered.keys, request.sums[row * size : (row + 1) * size])
        for row in range(num_sums)
    ]
    ends = pairwise(accumulate(request.num_tries, initial=0))
    return DetermineReply(tuple(_best_try(joined.terms.rule, found[slice(*each)]) for each in ends))


def _decrypted(joined: Membership, keys: bytes, total: bytes) -> NDArray[np.int64] | None:
    """Return the slots of a sum; None if it cannot be a sum over K clients."""
    terms, num_clients = joined.terms, joined.announced.num_participants
    try:
        found = terms.vault.read(keys, SumName(DISTRIBUTION), total, num_clients)
    except DecryptionError:
        return None
    return found if terms.covers(found, num_clients) else None


def _best_try(rule: Rule, found: Sequence[NDArray[np.int64] | None]) -> int:
    """Return the best of the valid tries; the first one wins a tie."""
    usable = {index: each for index, each in enumerate(found) if each is not None}
    if not usable:
        raise RefusedError(INVALID_SUM)
    scores = scores_of(np.array(list(usable.values())), rule.local_skew, rule.target)
    return list(usable)[int(np.argmin(scores))]
