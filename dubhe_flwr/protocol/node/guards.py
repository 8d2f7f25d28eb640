"""What a node refuses, and what it spends."""

import hashlib
from dataclasses import replace
from typing import Final

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.node.memory import Allowance, Membership, Reading, Registration
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.wire.messages import (
    DAY_IS_SPENT,
    ParticipateRequest,
    SettleRequest,
    sums_per_agent,
)

IS_ANOTHER: Final = "The sum is not what it is said to be."  # never which check failed
_DIGEST_BYTES: Final = 32


def price_of(
    joined: Membership, registered: Registration | None, request: ParticipateRequest
) -> int:
    """Return what the draws of a request cost: of the budget of the epoch, and of the day."""
    reading = None if registered is None else registered.reading
    num_registered = request.num_clients if reading is None else reading.num_registered
    num_draws = request.num_rounds * request.num_tries
    return joined.announced.draws_charged(num_draws, num_registered)


def spend_day(
    policy: NodePolicy, allowance: Allowance, today: int, num_epochs: int = 0, num_draws: int = 0
) -> Allowance:
    """Charge a request to what the owner allows in a day; a simulated node is allowed all."""
    if allowance.day != today:
        allowance = Allowance(today)
    num_epochs, num_draws = allowance.num_epochs + num_epochs, allowance.num_draws + num_draws
    allowance = Allowance(today, num_epochs, num_draws)
    spent = num_epochs > policy.max_epochs_per_day or num_draws > policy.max_draws_per_day
    if spent and not policy.simulated:
        raise RefusedError(DAY_IS_SPENT)
    return allowance


def registration_of(joined: Membership) -> Registration:
    """Return what the node has once it registered; refuse if it has not."""
    if joined.registered is None:
        raise RefusedError("This node has not registered in that epoch.")
    return joined.registered


def reading_of(registered: Registration) -> Reading:
    """Return what the node read of the sums; refuse if it read none, or refused one."""
    if registered.reading is None or registered.has_refused:
        raise RefusedError("This node has read no sum of that epoch, or refused one.")
    return registered.reading


def read_before(reading: Reading | None, request: SettleRequest) -> bytes:
    """Return the digests of the sums that the node has read with this one, which is read once.

    Two sums over different clients would tell their difference. So there is one for each exchange,
    and another one is refused, as is one where the sum before is missing.
    """
    digests = b"" if reading is None else reading.digests
    digest = hashlib.sha256(request.num_clients.to_bytes(8, "big") + request.sums).digest()
    start = request.exchange * _DIGEST_BYTES
    if start > len(digests):
        raise RefusedError("A sum before this one did not reach this node.")
    if start == len(digests):
        return digests + digest
    if digests[start : start + _DIGEST_BYTES] != digest:
        raise RefusedError("There is one sum of each exchange in an epoch, and this is another.")
    return digests


def spend_draws(joined: Membership, registered: Registration, price: int) -> Registration:
    """Charge some draws to the budget of the epoch; refuse if it is spent."""
    spent = registered.num_draws + price
    if spent > joined.announced.max_draws:
        raise RefusedError("The draws of this epoch are used up.")
    return replace(registered, num_draws=spent)


def spend_sums(registered: Registration, num_sums: int) -> Registration:
    """Charge some sums to the budget of an agent."""
    spent = registered.num_sums + num_sums
    if spent > sums_per_agent(reading_of(registered).num_registered):
        raise RefusedError("The sums that this node decrypts in an epoch are used up.")
    return replace(registered, num_sums=spent)
