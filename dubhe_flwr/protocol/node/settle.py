"""A node's part in settling the rule: it reads each sum once, and contributes to the next one.

A member of the committee also opens each sum once.
"""

import secrets
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import gaussian, generator, seed_of
from dubhe_flwr.errors import DubheError, RefusedError, UnprovenError
from dubhe_flwr.protocol.log import warn_once
from dubhe_flwr.protocol.node.memory import Keep, Membership, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy, where_raised
from dubhe_flwr.protocol.rules.rule import Own, Population, Settled, Unsettled
from dubhe_flwr.protocol.vaults import SumName, Vault
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.wire.messages import (
    OpenReply,
    OpenRequest,
    RuleSum,
    SettleReply,
    SettleRequest,
)
from dubhe_flwr.protocol.wire.terms import sum_name_of

INVALID_SUM: Final = "The sum is not valid."  # must not say which check failed


def registration_of(joined: Membership) -> Registration:
    """Return the node's registration; refuse if it has not registered."""
    if joined.registered is None:
        raise RefusedError("This node has not registered in this registration period.")
    return joined.registered


def open_sum(policy: NodePolicy, joined: Membership, request: OpenRequest, keep: Keep) -> OpenReply:
    """Open each sum of the epoch once."""
    registered, rule, vault = registration_of(joined), joined.terms.rule, joined.terms.vault
    if joined.member is None or not isinstance(vault, Committee):
        raise RefusedError("This node is not a member of a committee.")
    if request.number >= rule.num_sums(joined.terms.frame):
        raise RefusedError("The rule needs no further sum.")
    sum_name = sum_name_of(request.number)
    member = vault.check_open(joined.member, registered.keys, sum_name, request)
    keep(replace(joined, member=member))
    num_clients = sum(byte.bit_count() for byte in request.covered)
    _, deviations = population_and_noise(
        joined, request.number, num_clients, member.num_registered, member.num_joined
    )
    noise = None
    if deviations is not None and policy.seed_in(joined.announced) is not None:
        noise = simulated_noise(joined, deviations, request.number, member.place)
    elif deviations is not None:
        noise = vault.own_noise(member, request, deviations)
    return vault.release(member, member.group, sum_name, request, noise)


def settle(
    policy: NodePolicy, joined: Membership, request: SettleRequest, keep: Keep
) -> SettleReply:
    """Read a sum, and contribute to the next one or report that the rule is settled.

    Once the rule is settled, the session also makes the node draw. An invalid sum counts as read,
    too; the node then draws no more in this epoch.
    """
    registered, rule_sum = registration_of(joined), request.rule_sum
    _check(joined, registered, rule_sum)
    keep(replace(joined, registered=replace(registered, has_refused=True)))
    if not rule_sum.number:
        registered = replace(registered, num_registered=rule_sum.num_clients)
    try:
        outcome = _outcome(policy, joined, registered, request)
    except UnprovenError:
        raise
    except Exception as error:  # noqa: BLE001 - a rule may raise anything
        if not isinstance(error, DubheError):
            warn_once("dubhe: the rule %r raised %s.", joined.announced.rule, where_raised(error))
        raise RefusedError(INVALID_SUM) from None
    vault = joined.terms.vault
    registered = replace(
        registered,
        keys=vault.keys_after(registered.keys, rule_sum.sums),
        num_clients=rule_sum.num_clients,
        num_read=rule_sum.number + 1,
        state=outcome.state,
    )
    if isinstance(outcome, Settled):
        probability = float(outcome.probability)
        registered = replace(registered, is_settled=True, probability=probability)
        keep(replace(joined, registered=registered))
        return SettleReply(finding=outcome.finding)
    budget = joined.budget.charged(share_of_budget(joined, registered))
    keep(replace(joined, registered=registered, budget=budget))
    sum_name = sum_name_of(rule_sum.number + 1)
    return SettleReply(vault.hide(registered.keys, sum_name, outcome.contribution))


def own_of(policy: NodePolicy, joined: Membership, registered: Registration, number: int) -> Own:
    """Return what the rule is told about the node; `number` counts sums, from 0."""
    seed = policy.seed_in(joined.announced)
    if seed is not None:
        rng = generator(seed, "rounding", policy.alias, joined.sequence, number)
        lasting_seed = seed_of(seed, "lasting", policy.alias)
    else:
        rng = np.random.default_rng(secrets.randbits(128))
        lasting_seed = int.from_bytes(joined.budget.lasting_seed)
    is_spent = joined.budget.is_spent(share_of_budget(joined, registered))
    counts = np.array(joined.label_counts, dtype=np.int64)
    return Own(counts, registered.weight, rng, lasting_seed, is_spent)


def share_of_budget(joined: Membership, registered: Registration) -> float:
    """Return the share of the node's budget that a sum of the epoch costs.

    The less noise a sum has, the fewer sums the label counts may enter. For a node with weight w
    above 1, a sum counts as w^2 sums, so the budget gives the same bound for every weight.
    """
    terms, number = joined.terms, registered.num_registered
    most = terms.rule.sum_budget(terms.population(number, number))
    weight = max(1.0, min(registered.weight, terms.rule.heaviest))
    return 0.0 if most is None else weight**2 / most


def _outcome(
    policy: NodePolicy, joined: Membership, registered: Registration, request: SettleRequest
) -> Settled | Unsettled:
    """Decrypt a sum and take the rule's next step."""
    terms, rule_sum, number = joined.terms, request.rule_sum, request.rule_sum.number
    own = own_of(policy, joined, registered, number + 1)
    population, deviations = population_and_noise(
        joined, number, rule_sum.num_clients, registered.num_registered, registered.num_joined
    )
    opened = rule_sum.sums + (request.proofs or b"")
    name = sum_name_of(number)
    sums = decrypted_sum(terms.vault, registered.keys, name, opened, rule_sum.num_clients).copy()
    if joined.announced.in_the_clear and deviations is not None:
        for place in range(population.num_members):
            sums += simulated_noise(joined, deviations, number, place)
    outcome = terms.rule.settle(own, population, registered.state, sums)
    if isinstance(outcome, Unsettled):
        fits = number + 1 < terms.rule.num_sums(terms.frame)
        fault = "is not settled after its last sum"
    else:
        fits = 0.0 <= outcome.probability <= 1.0
        fault = "returned a probability outside 0 to 1"
    if not fits:
        warn_once("dubhe: the rule %r %s.", joined.announced.rule, fault)
        raise RefusedError(INVALID_SUM)
    return outcome


def population_and_noise(
    joined: Membership, number: int, num_clients: int, num_registered: int, num_joined: int
) -> tuple[Population, NDArray[np.float64] | None]:
    """Return what the node knows about a sum, and the deviations of each member's noise in it.

    A registration is charged before anyone knows how many nodes the sum covers. So the sum gets the
    noise for all nodes that joined, even if it covers only half of them.
    """
    terms = joined.terms
    population = terms.population(num_clients, num_registered)
    usual = terms.rule.deviations(population, number)
    added = terms.rule.deviations(terms.population(num_joined, num_joined), number)
    if usual is None or added is None or number:
        return population, usual
    return replace(population, excess=float((added[0] / usual[0]) ** 2)), added


def simulated_noise(
    joined: Membership, deviations: NDArray[np.float64], number: int, place: int
) -> NDArray[np.int64]:
    """Return one committee member's noise in a simulation; a cache shares it between the nodes."""
    seed = joined.announced.simulation_seed or 0
    return _simulated_noise(seed, joined.sequence, number, place, tuple(deviations.tolist()))


@lru_cache(maxsize=8)
def _simulated_noise(
    seed: int, sequence: int, number: int, place: int, deviations: tuple[float, ...]
) -> NDArray[np.int64]:
    uniform = generator(seed, "member", sequence, number, place).random((2, len(deviations)))
    return gaussian(np.array(deviations), 1.0 - uniform)


@lru_cache(maxsize=1)
def decrypted_sum(
    vault: Vault, keys: bytes, sum_name: SumName, total: bytes, num_clients: int
) -> NDArray[np.int64]:
    """Read a sum; the cache shares it between the nodes of a simulation, in one process."""
    return vault.read(keys, sum_name, total, num_clients)


def _check(joined: Membership, registered: Registration, rule_sum: RuleSum) -> None:
    """Refuse a sum out of turn, or over too few or too many clients.

    Two sums over different clients would reveal their difference, so a node reads only one sum
    under each number. A node has one probability in an epoch, so it reads no sum after the rule is
    settled.

    A sum must not cover more nodes than joined. Otherwise a server could first claim that very few
    nodes joined, so that the node is charged nothing. It could then send a sum over more nodes,
    from which the node would compute a probability that depends on its labels.
    """
    announced = joined.announced
    if registered.has_refused:
        raise RefusedError("A sum of this registration period was refused.")
    if registered.is_settled:
        raise RefusedError("The rule needs no further sum.")
    if rule_sum.number != registered.num_read:
        raise RefusedError("This is not the next sum of the registration period.")
    most = min(announced.max_clients, registered.num_registered)
    if not announced.least_clients(registered.num_joined) <= rule_sum.num_clients <= most:
        raise RefusedError(f"A sum over {rule_sum.num_clients} clients covers too few or too many.")
