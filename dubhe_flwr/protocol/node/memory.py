"""What a node keeps between two requests of the protocol, on its own host."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol.hidden import Hidden
from dubhe_flwr.protocol.vaults.committee import Member
from dubhe_flwr.protocol.wire.codec import Fields, decode, encode
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES
from dubhe_flwr.protocol.wire.messages import JoinRequest
from dubhe_flwr.protocol.wire.terms import Terms, terms_of

REMEMBERED_EPOCHS: Final = 64
"""Past epochs that a node remembers, so that an old request to join is refused."""

_VERSION: Final = 8
_VERSION_KEY: Final = "version"


@dataclass(frozen=True, slots=True, repr=False)
class Reading(Hidden):
    """What the node read of the rule's sums."""

    digests: bytes  # SHA-256 of each sum with the number of its clients, end to end
    num_registered: int  # clients that the sum of the registrations covers
    probability: float  # ``P`` by then
    memory: tuple[float, ...] | None = None  # of the rule, until the next sum; None once settled


@dataclass(frozen=True, slots=True, repr=False)
class Registration(Hidden):
    """What a node has once it registered."""

    keys: bytes = b""  # of the vault, to hide and to read
    weight: float = 1.0  # how much the node counts
    reading: Reading | None = None  # None before the first sum of the rule
    has_refused: bool = False  # whether it refused a sum; it then draws no more in this epoch
    num_joined: int = 0  # nodes that joined, as the server said
    num_draws: int = 0  # spent of the budget of the epoch, as are the sums
    num_sums: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Account(Hidden):
    """What the sums have told of some label counts, in all epochs."""

    rule: str = ""  # the rule that left it: its name, settings, and whether nodes are weighted
    label_counts: tuple[int, ...] = ()
    num_sums: int = 0  # that these counts entered
    left: tuple[float, ...] = ()  # what the rule left when the node last settled on it

    def of(self, announced: JoinRequest, label_counts: tuple[int, ...]) -> "Account":
        """Return the account of these label counts, a new one if they are others.

        What the rule left counts where rule and weights are the same.
        """
        rule = f"{announced.rule} {announced.rule_settings} {announced.weighted}"
        left = self.left if rule == self.rule else ()
        num_sums = self.num_sums if label_counts == self.label_counts else 0
        return Account(rule, label_counts, num_sums, left)

    def entered(self) -> "Account":
        """Return the account after the label counts entered one more sum."""
        return replace(self, num_sums=self.num_sums + 1)

    def is_spent(self, most: int | None) -> bool:
        """Return whether the label counts may enter no further sum."""
        return most is not None and self.num_sums >= most


@dataclass(frozen=True, slots=True, repr=False)
class Membership(Hidden):
    """A node's place in the epoch that it joined."""

    epoch: bytes  # its identity
    sequence: int  # number of the request to join, which tells the epochs of a run apart
    announced: JoinRequest
    delivery_key: bytes  # private half of the key for sealed delivery
    label_counts: tuple[int, ...]  # length C, as they were read when the node joined
    account: Account = Account()  # of the sums that these counts have entered
    has_made_key: bool = False  # whether it was the agent; it makes one key in an epoch
    registered: Registration | None = None
    member: Member | None = None  # what it keeps as a member of the committee

    @property
    def terms(self) -> Terms:
        """Rule and vault of the epoch."""
        return terms_of(self.announced, len(self.label_counts))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The label counts, shape (C,)."""
        return np.array(self.label_counts, dtype=np.int64)


Keep = Callable[[Membership], None]
"""What is to be remembered from here on, even if the rest of a request is refused. Whoever answers
calls it, or the request could be sent again.

A node that forgot what it decrypted for a refused request could be asked without end. So what is
to be decrypted is charged, and that is kept, before it is looked at.
"""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the node was asked for on a day, in days since 1970 by UTC, whatever the epochs."""

    day: int = 0
    num_epochs: int = 0
    num_draws: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Ledger(Hidden):
    """What a node has spent that a new run does not give back: of the day, of its label counts."""

    allowance: Allowance = Allowance()
    account: Account = Account()

    def to_fields(self) -> Fields:
        """Return what the node keeps on its own host."""
        return encode(self) | {_VERSION_KEY: _VERSION}

    @classmethod
    def from_fields(cls, kept: Mapping[str, object]) -> "Ledger":
        """Return the ledger that was kept; `MalformedMessageError` if it cannot be read."""
        return _decoded(cls, kept)


@dataclass(frozen=True, slots=True, repr=False)
class Memory(Hidden):
    """All that a node keeps; before the first request, nothing. It never leaves the node."""

    sequence: int = 0  # number of the last request that was answered
    epochs: bytes = b""  # identities of those that it was asked to join, the present one last
    allowance: Allowance = Allowance()  # what it did today
    joined: Membership | None = None  # its place in the present epoch; None if it did not join
    account: Account = Account()  # of the label counts with which it last joined an epoch

    @property
    def epoch(self) -> bytes:
        """Identity of the present epoch."""
        return self.epochs[-EPOCH_ID_BYTES:]

    def remembers(self, epoch: bytes) -> bool:
        """Return whether the node was asked to join that epoch before."""
        starts = range(0, len(self.epochs), EPOCH_ID_BYTES)
        return any(self.epochs[start : start + EPOCH_ID_BYTES] == epoch for start in starts)

    def to_fields(self) -> Fields:
        """Return what the node keeps on its own host."""
        return encode(self) | {_VERSION_KEY: _VERSION}

    @classmethod
    def from_fields(cls, kept: Mapping[str, object]) -> "Memory":
        """Return the memory that was kept; `MalformedMessageError` if it cannot be read."""
        return _decoded(cls, kept)

    @property
    def ledger(self) -> Ledger:
        """What the node has spent, whatever the run."""
        return Ledger(self.allowance, self.account)

    def with_ledger(self, ledger: Ledger) -> "Memory":
        """Return the memory after other runs spent as much as the ledger says."""
        joined, account = self.joined, ledger.account
        if joined is not None and joined.label_counts == account.label_counts:
            joined = replace(joined, account=replace(joined.account, num_sums=account.num_sums))
        return replace(self, allowance=ledger.allowance, account=account, joined=joined)


KeptT = TypeVar("KeptT")


def _decoded(kind: type[KeptT], kept: Mapping[str, object]) -> KeptT:
    if kept.get(_VERSION_KEY) == _VERSION:
        with suppress(TypeError, MalformedMessageError):
            return decode(kind, kept, num_others=1)
    raise MalformedMessageError("The kept session is not readable.")
