"""What a node refuses, and what a refusal costs.

A node that forgot what it decrypted for a refused request could be asked without end. So what is
to be decrypted is charged before it is looked at, and the charge stays where the rest is refused.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dubhe_flwr.errors import DubheError, RefusedError
from dubhe_flwr.protocol.node.memory import Allowance, Joined, Reading, Registered
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.wire.messages import ParticipateRequest

__all__ = [
    "ChargedError",
    "charging",
    "price_of",
    "read_before",
    "reading_of",
    "registration_of",
    "spend_day",
    "spend_draws",
    "spend_sums",
]

_DIGEST_BYTES = 32


class ChargedError(DubheError):
    """A request is refused, and yet has cost a part of what the node spends in an epoch.

    Parameters
    ----------
    joined : Joined
        What the node keeps all the same.
    reason : Exception
        Why it refuses.
    """

    def __init__(self, joined: Joined, reason: Exception) -> None:
        super().__init__(str(reason))
        self.joined = joined
        self.reason = reason


@contextmanager
def charging(joined: Joined, registered: Registered) -> Iterator[None]:
    """Keep what a request has cost even if the rest of the answer is refused.

    Raises
    ------
    ChargedError
        In place of any error, if the request has cost anything.
    """
    try:
        yield
    except Exception as error:
        if registered is joined.registered:
            raise
        raise ChargedError(replace(joined, registered=registered), error) from error


def price_of(joined: Joined, registered: Registered | None, request: ParticipateRequest) -> int:
    """Return what the draws of a request cost, of an epoch as of a day."""
    reading = None if registered is None else registered.reading
    num_registered = request.num_clients if reading is None else reading.num_registered
    num_draws = request.num_rounds * request.num_tries
    return joined.announced.draws_charged(num_draws, num_registered)


def spend_day(
    policy: NodePolicy, allowance: Allowance, today: int, num_epochs: int = 0, num_draws: int = 0
) -> Allowance:
    """Charge a request to what the owner allows in a day; a simulated node is allowed all.

    Raises
    ------
    RefusedError
        If that is spent.
    """
    if allowance.day != today:
        allowance = Allowance(today)
    num_epochs, num_draws = allowance.num_epochs + num_epochs, allowance.num_draws + num_draws
    allowance = Allowance(today, num_epochs, num_draws)
    spent = num_epochs > policy.max_epochs_per_day or num_draws > policy.max_draws_per_day
    if spent and not policy.simulated:
        raise RefusedError("This node has done what its owner allows in a day.")
    return allowance


def registration_of(joined: Joined) -> Registered:
    """Return what the node has once it registered.

    Raises
    ------
    RefusedError
        If it has not registered in this epoch.
    """
    if joined.registered is None:
        raise RefusedError("This node has not registered in that epoch.")
    return joined.registered


def reading_of(registered: Registered) -> Reading:
    """Return what the node read of the sums.

    Raises
    ------
    RefusedError
        If it read none in this epoch, or refused one.
    """
    if registered.reading is None or registered.reading.is_refused:
        raise RefusedError("This node has read no sum of that epoch.")
    return registered.reading


def read_before(reading: Reading | None, exchange: int, sums: bytes, num_clients: int) -> bytes:
    """Return the digests of the sums that the node has read with this one, which is read once.

    Two sums over different clients would tell their difference, so there is one for each exchange.

    Parameters
    ----------
    reading : Reading or None
        What was read before.
    exchange : int
        Number of the sum.
    sums : bytes
        The encrypted sum.
    num_clients : int
        Clients that it is said to cover.

    Raises
    ------
    RefusedError
        If another sum was read as that of the exchange, or the sum before is missing.
    """
    digests = b"" if reading is None else reading.digests
    digest = hashlib.sha256(num_clients.to_bytes(8, "big") + sums).digest()
    start = exchange * _DIGEST_BYTES
    if start > len(digests):
        raise RefusedError("A sum before this one did not reach this node.")
    if start == len(digests):
        return digests + digest
    if digests[start : start + _DIGEST_BYTES] != digest:
        raise RefusedError("There is one sum of each exchange in an epoch, and this is another.")
    return digests


def spend_draws(joined: Joined, registered: Registered, price: int) -> Registered:
    """Charge some draws to the budget of the epoch.

    Raises
    ------
    RefusedError
        If it is spent.
    """
    spent = registered.num_draws + price
    if spent > joined.announced.max_draws:
        raise RefusedError("The draws of this epoch are used up.")
    return replace(registered, num_draws=spent)


def spend_sums(joined: Joined, registered: Registered, num_sums: int) -> Registered:
    """Charge some sums to the budget of an agent: fewer in an epoch than half the clients.

    Raises
    ------
    RefusedError
        If it is spent.
    """
    spent = registered.num_sums + num_sums
    if spent > min(joined.announced.max_sums, (reading_of(registered).num_registered - 1) // 2):
        raise RefusedError("The sums that this node decrypts in an epoch are used up.")
    return replace(registered, num_sums=spent)
