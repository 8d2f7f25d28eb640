"""What a node keeps between two requests, on its own host.

The parts nest: `Memory` holds the `Membership` in the current epoch, which holds the
`Registration`. `LabelBudget` and `Allowance` count what a node has spent; `Ledger` carries both
from one run to the next.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from itertools import chain
from math import inf
from typing import Final, TypeVar

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.he.hidden import Hidden
from dubhe_flwr.protocol.vaults.vault import Member
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES, JoinRequest
from dubhe_flwr.protocol.wire.codec import Fields, decode, encode
from dubhe_flwr.protocol.wire.roster import split
from dubhe_flwr.protocol.wire.terms import Terms, terms_of

REMEMBERED_EPOCHS: Final = 256
"""Number of past epochs that a node remembers, to refuse requests to join them again.

It is above the default of `max_epochs_per_day`. Otherwise a server could make a node with
`state_dir` leave the epoch of another run, by asking it to join many in a day.
"""

_REMEMBERED_COUNTS: Final = 64
"""Number of earlier label counts whose budgets a node keeps."""

_PATIENCE: Final = 5.0
"""A node adopts a new probability only once its label counts have spent this many times as much of
their budget as they had spent when it adopted the old one. So it adopts at most three for the same
label counts: after 1/36, 5/36 and 25/36 of the budget, at the earliest."""

_LEAST_TAKEN: Final = 1.0 / 36.0
"""A node takes its first probability as if its labels had spent at least this much: one warm sum
with the default noise. With more noise a sum costs less, and would leave room for more
probabilities."""

_PER_MOVED: Final = 10
"""One in this many samples must have another class before a node uses new label counts."""

_NUMBER_BYTES: Final = 8

_VERSION: Final = 21
_VERSION_KEY: Final = "version"
_Told = tuple[float, float, float]  # spent, probability and taken_at
_ROUNDING: Final = 1e-9  # tolerance for shares that are added up


@dataclass(frozen=True, slots=True, repr=False)
class Registration(Hidden):
    """A node's registration in an epoch, and what it read from the rule's sums."""

    keys: bytes = b""  # the vault's keys, which hide and read numbers
    weight: float = 1.0  # the node's weight, relative to the mean
    num_joined: int = 0  # nodes that joined, according to the server
    # Clients covered by the sum of the registrations; until it is read, the nodes that joined.
    num_registered: int = 0
    num_clients: int = 0  # clients covered by the last sum
    num_read: int = 0  # sums read in this epoch
    has_refused: bool = False  # whether it refused a sum; it then draws no more in this epoch
    is_settled: bool = False  # whether the rule is settled, so that it needs no further sum
    probability: float = 0.0  # ``P``, once the rule is settled
    # The rule's state after the last sum; before the first, the state that the epoch continues.
    state: tuple[float, ...] | None = None
    num_sums: int = 0  # sums decrypted as an agent


@dataclass(frozen=True, slots=True, repr=False)
class LabelBudget(Hidden):
    """What a node's label counts have revealed, in all epochs, through sums and through draws.

    Each sum spends a part of the budget. Draws gradually reveal the probability P with which they
    are made. So a node keeps P, relative to K / N, while `keeps_probability` is true.

    New label counts have a budget of their own. A node whose counts change with every new sample
    would therefore reveal more each time. So once its counts have entered a noisy sum, it uses them
    until at least a tenth of its samples have another class.

    If label counts change and roughly change back, the node uses the earlier ones again, and their
    budget continues where it left off. This also holds if two concurrent runs balance different
    histograms of a node's data.
    """

    label_counts: tuple[int, ...] = ()  # those that the node uses; empty before the first
    spent: float = 0.0  # share of the budget of sums, from 0 to 1
    probability: float = 0.0  # ``P N / K`` of its last draw; 0 before the first
    taken_at: float = 0.0  # what was spent when it adopted this probability
    # Other label counts, one set per line, and the spent, probability and taken_at of each.
    others: str = ""
    others_told: tuple[float, ...] = ()
    # Secret; seeds the lasting noise with which the node draws. Empty before the first epoch.
    lasting_seed: bytes = b""

    def of(self, label_counts: tuple[int, ...]) -> "LabelBudget":
        """Return the budget of these label counts, or of earlier ones that they resemble."""
        known = self.known()
        close = [earlier for earlier in known if _resemble(earlier, label_counts)]
        if self.label_counts in close:
            return self
        return self._of(close[0] if close else label_counts, known)

    def merged(self, other: "LabelBudget") -> "LabelBudget":
        """Combine two records of a node's budget: keep the larger amount spent."""
        known = self.known()
        for counts, (spent, *others) in other.known().items():
            own_spent, *own = known.get(counts, (0.0, 0.0, 0.0))
            probability, taken_at = max(own, others, key=lambda each: each[1])
            known[counts] = max(own_spent, spent), probability, taken_at
        merged = self._of(self.label_counts or other.label_counts, known)
        return replace(merged, lasting_seed=self.lasting_seed or other.lasting_seed)

    def known(self) -> dict[tuple[int, ...], _Told]:
        """Return what was spent, probability and taken_at, by the label counts."""
        numbers = iter(self.others_told)
        told = zip(numbers, numbers, numbers, strict=False)
        others = (tuple(map(int, line.split())) for line in self.others.splitlines())
        known = dict(zip(others, told, strict=False))
        if self.spent:
            known[self.label_counts] = self.spent, self.probability, self.taken_at
        return known

    def _of(
        self, label_counts: tuple[int, ...], known: dict[tuple[int, ...], _Told]
    ) -> "LabelBudget":
        """Return the budget of these label counts, given what is known about all."""
        told = known.pop(label_counts, (0.0, 0.0, 0.0))
        kept = sorted(known.items(), key=lambda each: -each[1][0])[:_REMEMBERED_COUNTS]
        others = "\n".join(" ".join(map(str, counts)) for counts, _ in kept)
        others_told = chain(*(each for _, each in kept))
        return LabelBudget(label_counts, *told, others, tuple(others_told), self.lasting_seed)

    def charged(self, share: float) -> "LabelBudget":
        """Return the budget after a sum that costs this share of it, or all that is left."""
        return replace(self, spent=min(1.0, self.spent + share))

    def is_spent(self, share: float) -> bool:
        """Return whether a sum that costs this share would exceed the budget."""
        return share > 0.0 and self.spent + share > 1.0 + _ROUNDING

    @property
    def keeps_probability(self) -> bool:
        """Whether the labels have entered too few sums to draw with a new probability."""
        return self.spent < _PATIENCE * self.taken_at - _ROUNDING

    def drawn(self, probability: float) -> "LabelBudget":
        """Return the budget after a draw with a new probability."""
        return replace(self, probability=probability, taken_at=max(self.spent, _LEAST_TAKEN))


def _resemble(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether less than a tenth of all samples have another class than before."""
    if len(before) != len(after):
        return False
    num_before, num_after = sum(before), sum(after)  # Python's integers do not overflow
    each = zip(before, after, strict=True)
    moved = sum(abs(a * num_after - b * num_before) for a, b in each)
    return _PER_MOVED * moved < 2 * num_before * num_after


@dataclass(frozen=True, slots=True, repr=False)
class Membership(Hidden):
    """A node's membership in the epoch that it joined."""

    epoch: bytes  # the epoch's identity
    sequence: int  # number of the join request, which differs between the epochs of a run
    announced: JoinRequest
    delivery_key: bytes  # private half of the key for sealed delivery
    num_examples: int  # number of its samples when it joined
    budget: LabelBudget  # for the label counts that it uses
    was_appointed: bool = False  # whether it was asked to be an opener
    earlier: tuple[float, ...] = ()  # the rule's state after the epoch that this one continues
    registered: Registration | None = None
    member: Member | None = None  # its state as a member of the committee, if it is one

    @property
    def label_counts(self) -> tuple[int, ...]:
        """The label counts that the node uses, of length C."""
        return self.budget.label_counts

    @property
    def terms(self) -> Terms:
        """The epoch's rule and vault."""
        return terms_of(self.announced, len(self.label_counts))


Keep = Callable[[Membership], None]
"""Stores a membership at once, even if the node refuses the rest of the request.

Every function that answers a request calls it; otherwise the same request could be sent again. A
node that forgot what it decrypted for a refused request could be queried without limit. So it
charges a sum, and stores the charge, before it decrypts.
"""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How often the node was asked to join and to draw today, across epochs."""

    day: int = 0  # days since 1970, in UTC
    num_epochs: int = 0
    num_draws: int = 0

    def merged(self, other: "Allowance") -> "Allowance":
        """Combine two records: keep the later day's or, for the same day, the larger numbers."""
        if self.day != other.day:
            return max(self, other, key=lambda each: each.day)
        num_epochs = max(self.num_epochs, other.num_epochs)
        return Allowance(self.day, num_epochs, max(self.num_draws, other.num_draws))


@dataclass(frozen=True, slots=True, repr=False)
class Ledger(Hidden):
    """What a node keeps across runs: what it has spent, and which requests it has answered."""

    allowance: Allowance = Allowance()
    budget: LabelBudget = LabelBudget()
    # The latest epochs, concatenated: each one's identity and the last number answered in it.
    answered: bytes = b""

    def last_answered(self) -> dict[bytes, int]:
        """Return the number of the last request answered in each of the latest epochs."""
        rows = split(self.answered, EPOCH_ID_BYTES + _NUMBER_BYTES)
        return {row[:EPOCH_ID_BYTES]: int.from_bytes(row[EPOCH_ID_BYTES:]) for row in rows}

    def to_fields(self) -> Fields:
        """Return what the node keeps on its own host."""
        return encode(self) | {_VERSION_KEY: _VERSION}

    @classmethod
    def from_fields(cls, kept: Mapping[str, object]) -> "Ledger":
        """Return the ledger that was kept. Raises `MalformedMessageError` if it cannot be read."""
        ledger = _decoded(cls, kept)
        budget, lines = ledger.budget, ledger.budget.others.splitlines()
        numbers = *astuple(ledger.allowance), budget.spent, budget.probability, budget.taken_at
        if (
            len(ledger.answered) % (EPOCH_ID_BYTES + _NUMBER_BYTES)
            or len(budget.others_told) != 3 * len(lines)
            or not all(line.replace(" ", "").isdecimal() for line in lines)
            or not all(0 <= each < inf for each in (*numbers, *budget.others_told))
        ):
            raise MalformedMessageError("The ledger is damaged.")
        return ledger


@dataclass(frozen=True, slots=True, repr=False)
class Memory(Hidden):
    """Everything that a node keeps; empty before the first request. It never leaves the node."""

    sequence: int = 0  # number of the last request answered
    # Identities of the epochs it was asked to join, the current one last. Those in its ledger come
    # first, and if the node has lost its memory, the last of them counts as the current one.
    epochs: bytes = b""
    allowance: Allowance = Allowance()  # spent today
    joined: Membership | None = None  # None if it did not join the current epoch
    budget: LabelBudget = LabelBudget()  # for the label counts with which it last joined

    @property
    def epoch(self) -> bytes:
        """Identity of the current epoch."""
        return self.epochs[-EPOCH_ID_BYTES:]

    def remembers(self, epoch: bytes) -> bool:
        """Return whether the node was asked to join that epoch before."""
        return epoch in split(self.epochs, EPOCH_ID_BYTES)

    def earlier(self, announced: JoinRequest) -> tuple[float, ...]:
        """Return the rule's state after the epoch that `announced` continues, if known."""
        before = self.joined
        if before is None or before.epoch != announced.continues or before.registered is None:
            return ()
        same = _rule_of(before.announced) == _rule_of(announced)
        return before.registered.state or () if same and before.registered.is_settled else ()

    def to_fields(self) -> Fields:
        """Return what the node keeps on its own host."""
        return encode(self) | {_VERSION_KEY: _VERSION}

    @classmethod
    def from_fields(cls, kept: Mapping[str, object]) -> "Memory":
        """Return the memory that was kept. Raises `MalformedMessageError` if it cannot be read."""
        return _decoded(cls, kept)

    def ledger_after(self, before: Ledger) -> Ledger:
        """Return the ledger after the last request, given the ledger before it."""
        answered = before.last_answered()
        answered[self.epoch] = max(answered.pop(self.epoch, 0), self.sequence)
        rows = [epoch + number.to_bytes(_NUMBER_BYTES) for epoch, number in answered.items()]
        return Ledger(self.allowance, self.budget, b"".join(rows[-REMEMBERED_EPOCHS:]))

    def with_ledger(self, ledger: Ledger) -> "Memory":
        """Return the memory with what other runs have spent, taken from a ledger.

        The ledger may have been lost in the meantime, so the amount spent never decreases. The
        memory may have been lost, too: Flower stores it after it has sent the reply. A node that
        forgot what it answered would use the same pads again. So it leaves the epoch unless the
        ledger lists the epoch with a number that the memory has reached. It joins no epoch that
        the ledger lists.
        """
        answered = ledger.last_answered()
        joined = self.joined
        if answered.get(self.epoch, inf) > self.sequence:
            joined = None
        if joined is not None:
            budget = joined.budget.merged(ledger.budget)
            if joined.registered is None:  # another run may have registered with earlier counts
                budget = budget.of(joined.label_counts)
            joined = replace(joined, budget=budget)
        own = self.epochs[-REMEMBERED_EPOCHS * EPOCH_ID_BYTES :]
        known = set(split(own, EPOCH_ID_BYTES))
        return replace(
            self,
            epochs=b"".join([*(epoch for epoch in answered if epoch not in known), own]),
            allowance=self.allowance.merged(ledger.allowance),
            joined=joined,
            budget=ledger.budget.merged(self.budget),
        )


def _rule_of(announced: JoinRequest) -> tuple[str, str, bool]:
    return announced.rule, announced.rule_settings, announced.weighted


KeptT = TypeVar("KeptT")


def _decoded(kind: type[KeptT], kept: Mapping[str, object]) -> KeptT:
    if kept.get(_VERSION_KEY) == _VERSION:
        with suppress(TypeError, MalformedMessageError):
            return decode(kind, kept, num_others=1)
    raise MalformedMessageError("The kept session is not readable.")
