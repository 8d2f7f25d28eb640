"""A node's part in settling the rule: it reads each sum once, and contributes to the next one."""

import hashlib
import secrets
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import gaussian, generator
from dubhe_flwr.errors import DubheError, RefusedError, UnprovenError
from dubhe_flwr.protocol.node.guards import INVALID_SUM, reading_of, registration_of
from dubhe_flwr.protocol.node.memory import Keep, Membership, Reading, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy, logger, where_raised
from dubhe_flwr.protocol.rules.rule import Own, Population, Settled, Unsettled
from dubhe_flwr.protocol.vaults import SumName, Vault
from dubhe_flwr.protocol.vaults.vault import with_sum
from dubhe_flwr.protocol.wire.messages import DrawRequest, RuleSum, SettleReply, SettleRequest
from dubhe_flwr.protocol.wire.terms import rule_sum


def settle(
    policy: NodePolicy, joined: Membership, request: SettleRequest, keep: Keep
) -> SettleReply:
    """Continue with the rule: contribute to the next sum, or report that the rule is settled.

    Once the rule is settled, the session also makes the node draw.
    """
    joined, outcome = read_sum(policy, joined, request, keep)
    if outcome is None:
        raise RefusedError("This node has already answered this sum.")
    if isinstance(outcome, Settled):
        return SettleReply(finding=outcome.finding)
    registered = registration_of(joined)
    share = share_of_budget(joined, registered.weight, reading_of(registered).num_registered)
    keep(replace(joined, budget=joined.budget.charged(share)))
    sum_name = rule_sum(request.number + 1)
    return SettleReply(joined.terms.vault.hide(registered.keys, sum_name, outcome.contribution))


def own_of(
    policy: NodePolicy,
    joined: Membership,
    registered: Registration,
    num_clients: int,
    number: int,
) -> Own:
    """Return what the rule is told about the node; `number` counts sums, from 0."""
    seed = joined.announced.simulation_seed
    if policy.simulated and seed is not None:
        rng = generator(seed, "rounding", policy.alias, joined.sequence, number)
    else:
        rng = np.random.default_rng(secrets.randbits(128))
    is_spent = joined.budget.is_spent(share_of_budget(joined, registered.weight, num_clients))
    counts = np.array(joined.label_counts, dtype=np.int64)
    return Own(counts, registered.weight, rng, is_spent)


def share_of_budget(joined: Membership, weight: float, num_clients: int) -> float:
    """Return the share of the node's budget that a sum over `num_clients` clients costs.

    The less noise a sum has, the fewer sums the label counts may enter. For a node with weight w
    above 1, a sum counts as w^2 sums, so the budget gives the same bound for every weight.
    """
    terms = joined.terms
    volunteers = joined.announced.num_volunteers(num_clients)
    most = terms.rule.sum_budget(terms.frame, num_clients, volunteers)
    return 0.0 if most is None else max(1.0, min(weight, terms.rule.heaviest)) ** 2 / most


def read_sum(
    policy: NodePolicy, joined: Membership, request: DrawRequest, keep: Keep
) -> tuple[Membership, Settled | Unsettled | None]:
    """Read a sum over all nodes, and return the rule's outcome; None if it was read before.

    An invalid sum counts as read, too; the node then draws no more in this epoch.
    """
    registered = registration_of(joined)
    if registered.has_refused:
        raise RefusedError("A sum of this epoch was refused.")
    reading = registered.reading
    known = b"" if reading is None else reading.digests
    digest = hashlib.sha256(request.num_clients.to_bytes(8, "big") + request.sums).digest()
    digests = with_sum(known, request.number, digest)
    if digests == known:
        return joined, None
    _check_number(joined, registered, request)
    num_registered = request.num_clients if reading is None else reading.num_registered
    keep(replace(joined, registered=replace(registered, has_refused=True)))
    try:
        own = own_of(policy, joined, registered, num_registered, request.number + 1)
        outcome = _outcome(own, joined, registered, request, num_registered)
        reading = Reading(
            digests,
            num_registered,
            probability=float(outcome.probability),
            state=outcome.state if isinstance(outcome, Unsettled) else None,
        )
    except UnprovenError:
        raise
    except Exception as error:  # noqa: BLE001 - a rule may raise anything
        if not isinstance(error, DubheError):
            where = where_raised(error)
            logger.warning("dubhe: the rule %r raised %s.", joined.announced.rule, where)
        raise RefusedError(INVALID_SUM) from None
    joined = replace(joined, registered=replace(registered, reading=reading))
    if isinstance(outcome, Settled) and outcome.state:
        joined = replace(joined, state=outcome.state)
    keep(joined)
    return joined, outcome


def _outcome(
    own: Own,
    joined: Membership,
    registered: Registration,
    request: DrawRequest,
    num_registered: int,
) -> Settled | Unsettled:
    """Decrypt a sum and return the rule's outcome."""
    terms, announced, reading = joined.terms, joined.announced, registered.reading
    num_sums = terms.rule.num_sums(terms.frame, num_registered)
    sum_name = rule_sum(request.number)
    population, deviations = population_and_noise(
        joined, request.number, request.num_clients, num_registered, registered.num_joined
    )
    opened = request.sums + (request.proofs or b"")
    sums = decrypted_sum(terms.vault, registered.keys, sum_name, opened, request.num_clients).copy()
    if announced.in_the_clear and deviations is not None:
        for place in range(population.num_members):
            sums += simulated_noise(joined, deviations, request.number, place)
    outcome = terms.rule.settle(
        own,
        population,
        registered.state if reading is None else reading.state,
        sums,
    )
    if not 0.0 <= outcome.probability <= 1.0:
        logger.warning("dubhe: the rule %r returned a probability outside 0 to 1.", announced.rule)
        raise RefusedError(INVALID_SUM)
    if request.number + 1 >= num_sums and isinstance(outcome, Unsettled):
        outcome = Settled(outcome.probability)
    return outcome


def population_of(joined: Membership, num_clients: int, num_registered: int) -> Population:
    """Return what the node knows about a sum over some clients of an epoch."""
    announced, terms = joined.announced, joined.terms
    return Population(
        terms.frame,
        num_clients,
        announced.num_participants,
        announced.num_volunteers(num_registered),
        terms.vault.num_members,
    )


def population_and_noise(
    joined: Membership, number: int, num_clients: int, num_registered: int, num_joined: int
) -> tuple[Population, NDArray[np.float64] | None]:
    """Return what the node knows about a sum, and the deviations of each member's noise in it.

    A registration is charged before anyone knows how many nodes the sum covers. So the sum gets the
    noise for all nodes that joined, even if it covers only half of them.
    """
    population, rule = population_of(joined, num_clients, num_registered), joined.terms.rule
    planned = population if number else population_of(joined, num_joined, num_joined)
    added, usual = rule.deviations(planned, number), rule.deviations(population, number)
    if added is None or usual is None:
        return population, None
    return replace(population, excess=float((added[0] / usual[0]) ** 2)), added


def simulated_noise(
    joined: Membership, deviations: NDArray[np.float64], number: int, place: int
) -> NDArray[np.int64]:
    """Return one committee member's noise in a simulation."""
    seed, path = joined.announced.simulation_seed or 0, (joined.sequence, number, place)
    return gaussian(deviations, generator(seed, "member", *path).random((2, deviations.size)))


@lru_cache(maxsize=1)
def decrypted_sum(
    vault: Vault, keys: bytes, sum_name: SumName, total: bytes, num_clients: int
) -> NDArray[np.int64]:
    """Read a sum; the cache shares it between the nodes of a simulation, in one process."""
    return vault.read(keys, sum_name, total, num_clients)


def _check_number(joined: Membership, registered: Registration, request: RuleSum) -> None:
    """Refuse a sum over too few or too many clients, and any sum after the rule is settled.

    A sum must not cover more nodes than joined. Otherwise a server could first claim that very few
    nodes joined, so that the node is charged nothing. It could then send a sum over more nodes,
    from which the node would compute a probability that depends on its labels.
    """
    num_clients, announced = request.num_clients, joined.announced
    reading = registered.reading
    joining = min(announced.max_clients, registered.num_joined)
    most = joining if reading is None else reading.num_registered
    least = max(announced.min_cohort, -(-registered.num_joined // 2))
    if not least <= num_clients <= most:
        raise RefusedError(f"A sum over {num_clients} clients covers too few or too many.")
    if reading is None:
        return
    most_sums = joined.terms.rule.num_sums(joined.terms.frame, reading.num_registered)
    # A node has one probability in an epoch: it is fixed once the node has settled or drawn.
    if reading.state is None or registered.num_draws or request.number >= most_sums:
        raise RefusedError("The rule needs no further sum.")
