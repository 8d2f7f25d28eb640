"""A node settles the rule: it reads sums over all nodes, each one once, and answers them."""

from dataclasses import replace

from dubhe_flwr.errors import DubheError, RefusedError
from dubhe_flwr.protocol.node.guards import charging, read_before, registration_of
from dubhe_flwr.protocol.node.memory import Joined, Reading, Registered
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.rules import Population, Settled, Unsettled
from dubhe_flwr.protocol.wire.messages import ParticipateRequest, SettleReply, SettleRequest
from dubhe_flwr.protocol.wire.terms import REGISTRATION, SETTLEMENT

__all__ = ["read_sum", "settle"]


def settle(
    policy: NodePolicy, joined: Joined, request: SettleRequest
) -> tuple[SettleReply, Joined]:
    """Go on with the rule: add to the next sum, or say that it is settled."""
    del policy
    registered, outcome = read_sum(joined, registration_of(joined), request)
    if outcome is None:
        raise RefusedError("This node answered that exchange before.")
    with charging(joined, registered):
        if isinstance(outcome, Settled):
            reply = SettleReply(finding=outcome.finding)
        else:
            reply = SettleReply(joined.encrypt(registered, SETTLEMENT, outcome.contribution))
    return reply, replace(joined, registered=registered)


def read_sum(
    joined: Joined, registered: Registered, request: SettleRequest | ParticipateRequest
) -> tuple[Registered, Settled | Unsettled | None]:
    """Read a sum over all nodes, unless it was read before.

    Returns
    -------
    registered : Registered
        Which remembers that it was read.
    outcome : Settled, Unsettled or None
        What the rule makes of it; None if it was read before.

    Raises
    ------
    RefusedError
        If it is another one than before, covers too few clients, or was refused before.
    ChargedError
        If it is not the sum it is said to be. It counts as read all the same, and in this epoch
        the node then draws no more.
    """
    reading, exchange, num_clients = registered.reading, request.exchange, request.num_clients
    digests = read_before(reading, exchange, request.sums, num_clients)
    if reading is not None and reading.is_refused:
        raise RefusedError("A sum of this epoch was refused.")
    if reading is not None and digests == reading.digests:
        return registered, None
    _check_number(joined, reading, request)
    num_registered = num_clients if reading is None else reading.num_registered
    charged = replace(registered, reading=Reading(digests, num_registered))
    population = Population(
        num_clients,
        joined.announced.num_participants,
        joined.announced.num_volunteers(num_registered),
    )
    field = SETTLEMENT if exchange else REGISTRATION
    kept = (() if reading is None else reading.memory) or ()
    with charging(joined, charged):
        try:
            sums = joined.decrypt(charged, field, request.sums, num_clients)
            outcome = joined.terms.rule.settle(joined.counts, population, kept, sums)
        except DubheError:
            # Which check failed would tell something of what was decrypted.
            raise RefusedError("The sum is not what it is said to be.") from None
    reading = Reading(
        digests,
        num_registered,
        is_refused=False,
        probability=outcome.probability,
        memory=outcome.memory if isinstance(outcome, Unsettled) else None,
    )
    return replace(charged, reading=reading), outcome


def _check_number(
    joined: Joined, reading: Reading | None, request: SettleRequest | ParticipateRequest
) -> None:
    """Refuse a sum over too few clients or more than before, and one too many."""
    num_clients, announced = request.num_clients, joined.announced
    most = announced.max_clients if reading is None else reading.num_registered
    if not announced.min_cohort <= num_clients <= most:
        raise RefusedError(f"A sum over {num_clients} clients covers too few or too many.")
    if reading is None:
        return
    rule, num_classes = joined.terms.rule, len(joined.label_counts)
    most = rule.max_exchanges(num_classes, reading.num_registered)
    if reading.memory is None or request.exchange > most:
        raise RefusedError("The rule is settled with fewer sums.")
