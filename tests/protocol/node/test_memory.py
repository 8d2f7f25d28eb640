"""Tests of a node's memory: it survives as fields, and reveals nothing that it holds."""

import math
from dataclasses import replace

import pytest

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol.node.memory import (
    REMEMBERED_EPOCHS,
    Allowance,
    LabelBudget,
    Ledger,
    Membership,
    Memory,
    Registration,
)
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.rules import Paper

ANNOUNCED = JoinRequest("paper", Paper((1, 3), {1: 0.7}).to_json(), 20, 512, 1000, 3)
KEYS = b"modulus 31415, prime 31415"
REGISTERED = Registration(KEYS, 2.5, 31415, probability=0.31415, state=(0.31415, 2.0))
COUNTS = LabelBudget((31415, 2, 3))
JOINED = Membership(
    b"\xab" * 16, 31, ANNOUNCED, b"key for delivery 31415", 31420, COUNTS, registered=REGISTERED
)
MEMORY = Memory(31415, b"\x01" * 16 + b"\xab" * 16, Allowance(31415, 1, 31415), JOINED)


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2}, {"version": None}, {"sequence": "5"}, {"epochs": None},
        {"joined.budget.label-counts": b"1234567"}, {"joined.places": b""},
        {"joined.announced.num-participants": 0}, {"joined.registered.num-read": None},
    ],
)  # fmt: skip
def test_unreadable_memory_is_refused_without_detail(damage: dict[str, object]) -> None:
    """Another version, or damaged fields, give one error that reveals nothing."""
    kept = {k: v for k, v in (MEMORY.to_fields() | damage).items() if v is not None}
    for fields in (kept, {}):
        with pytest.raises(MalformedMessageError, match=r"^The kept session is not readable\.$"):
            Memory.from_fields(fields)


@pytest.mark.parametrize("holder", [MEMORY, JOINED, REGISTERED], ids=["all", "epoch", "keys"])
def test_a_repr_shows_no_secret(holder: object) -> None:
    """The repr of an object with keys, labels or a probability shows only its name."""
    assert repr(holder) == str(holder) == f"{type(holder).__name__}(<hidden>)"


def spent_by(
    counts: tuple[int, ...], spent: float, probability: float, taken_at: float
) -> LabelBudget:
    """Return the budget of label counts that have spent a share of it."""
    return replace(
        LabelBudget().of(counts), spent=spent, probability=probability, taken_at=taken_at
    )


def test_a_ledger_carries_what_other_runs_spent() -> None:
    """The larger share counts, and the probability that was taken last."""
    counts, others = JOINED.label_counts, (4, 5)
    before = spent_by(counts, 0.5, 2.0, 0.25)
    answered = MEMORY.ledger_after(Ledger()).answered
    ledger = Ledger(Allowance(5, 1), before.of(others).charged(0.75), answered)
    assert Ledger.from_fields(ledger.to_fields()) == ledger
    for own, expected in (
        (spent_by(counts, 0.625, 1.0, 0.125), (0.625, 2.0, 0.25)),
        (spent_by(counts, 0.375, 1.0, 0.375), (0.5, 1.0, 0.375)),
    ):
        joined = replace(MEMORY, joined=replace(JOINED, budget=own)).with_ledger(ledger).joined
        assert joined is not None
        assert (joined.budget.spent, joined.budget.probability, joined.budget.taken_at) == expected
        assert joined.budget.of(others).spent == 0.75


def test_a_ledger_remembers_the_latest_epochs() -> None:
    """It has the largest number answered in each, whichever run was answered last.

    An id matches only at its own position, not across two ids.
    """
    ledger = Ledger()
    for number in range(REMEMBERED_EPOCHS + 2):
        memory = Memory(sequence=number, epochs=number.to_bytes(16))
        ledger = memory.ledger_after(ledger)
    ledger = Memory(sequence=1, epochs=(40).to_bytes(16)).ledger_after(ledger)
    told = ledger.last_answered()
    assert [int.from_bytes(epoch) for epoch in told] == [
        *range(2, 40),
        *range(41, REMEMBERED_EPOCHS + 2),
        40,
    ]
    assert all(number == int.from_bytes(epoch) for epoch, number in told.items())
    after = MEMORY.ledger_after(ledger)
    for sequence, joined in ((31415, JOINED), (31414, None)):
        assert replace(MEMORY, sequence=sequence).with_ledger(after).joined == joined
    assert MEMORY.with_ledger(ledger).joined is None
    for epoch in after.last_answered():
        assert MEMORY.with_ledger(after).remembers(epoch)
        assert Memory().with_ledger(after).remembers(epoch)
    assert not MEMORY.remembers(MEMORY.epochs[8:24])
    assert MEMORY.with_ledger(after).epoch == MEMORY.epoch


def test_a_damaged_ledger_is_refused() -> None:
    """A file that lost bytes, or holds impossible amounts, is refused, not read as another."""
    whole = replace(MEMORY, budget=spent_by((9, 20, 30), 0.5, 1.2, 0.25)).ledger_after(Ledger())
    whole = replace(whole, budget=whole.budget.of((4, 5)))
    assert Ledger.from_fields(whole.to_fields()) == whole
    for damaged in (
        replace(whole, answered=whole.answered[:-1]),
        replace(whole, allowance=replace(whole.allowance, num_draws=-1)),
        replace(whole, budget=replace(whole.budget, spent=math.nan)),
        replace(whole, budget=replace(whole.budget, taken_at=math.inf)),
        replace(whole, budget=replace(whole.budget, others="")),
        replace(whole, budget=replace(whole.budget, others="9 x 30")),
        replace(whole, budget=replace(whole.budget, others_told=(-1.0, 1.2, 0.25))),
    ):
        with pytest.raises(MalformedMessageError, match="damaged"):
            Ledger.from_fields(damaged.to_fields())


def test_a_ledger_that_is_lost_resets_nothing_during_a_run() -> None:
    """A lost or older ledger resets nothing: the node's own memory says what it has spent."""
    counts, others = (4, 5), (9, 20, 30)
    earlier = spent_by(others, 0.5, 1.2, 0.25).of(counts)
    spent = replace(earlier, spent=0.75, probability=1.5, taken_at=0.75, lasting_seed=b"seed")
    memory = Memory(allowance=Allowance(7, 3, 40), budget=spent)
    older = Ledger(Allowance(7, 5, 20), spent_by(others, 0.6, 0.9, 0.1))
    for ledger, epochs, of_others in ((Ledger(), 3, 0.5), (older, 5, 0.6)):
        told = memory.with_ledger(ledger)
        assert told.allowance == Allowance(7, epochs, 40)
        assert told.budget.lasting_seed == b"seed"
        mine, theirs = told.budget.of(counts), told.budget.of(others)
        assert (mine.spent, mine.probability, mine.taken_at) == (0.75, 1.5, 0.75)
        assert (theirs.spent, theirs.probability, theirs.taken_at) == (of_others, 1.2, 0.25)


def test_a_node_keeps_its_label_counts_until_a_tenth_has_moved() -> None:
    """Counts that grow, in the same shares, never change; nothing is kept that entered no sum."""
    counts = (60, 40)
    kept = spent_by(counts, 0.5, 2.0, 0.25)
    for far in ((50, 50), (7, 3), (2**39, 2**39), (60, 40, 0)):
        other = kept.of(far)
        assert (other.label_counts, other.spent) == (far, 0.0)
        for close in ((61, 40), (600, 400), (2**39 + 1, 2**39 - 1), (51, 49), (69, 31)):
            assert kept.of(close) == other.of(close) == kept
    assert LabelBudget().of(counts).of((61, 40)).label_counts == (61, 40)


def test_histograms_in_turn_get_no_new_budget_as_their_data_grows() -> None:
    """Two runs at once balance a histogram each, or label counts change and change back."""
    budget, told = LabelBudget(), set()
    for number in range(40):
        for counts in ((60 + number, 40), (9, 20 + number, 30)):
            budget = budget.of(counts).charged(1 / 9)
            told.add(budget.label_counts)
    assert told == {(60, 40), (94, 40), (9, 20, 30), (9, 31, 30), (9, 47, 30)}


def test_a_node_that_joined_uses_what_another_run_has_registered() -> None:
    """Otherwise a server could let it join as its data grows, and register in many runs at once."""
    counts, earlier = (61, 40), spent_by((60, 40), 0.5, 2.0, 0.25)
    before = replace(JOINED, budget=LabelBudget(counts))
    for registered, others in ((None, earlier), (REGISTERED, LabelBudget(counts))):
        memory = replace(MEMORY, joined=replace(before, registered=registered))
        ledger = replace(memory.ledger_after(Ledger()), budget=earlier)
        after = memory.with_ledger(ledger).joined
        assert after is not None
        assert after.label_counts == others.label_counts


@pytest.mark.parametrize("share", [1 / 36, 1 / 9])
def test_labels_have_at_most_three_probabilities(share: float) -> None:
    """A node takes another one only after five times as many sums, whenever it is asked to draw."""
    budget, taken = LabelBudget(), []
    for num_sums in range(1, 1000):  # also of noise alone, once the budget is spent
        budget = budget.charged(share)
        if not budget.keeps_probability:
            budget = budget.drawn(0.5)
            taken.append(num_sums)
    assert taken == ([1, 5, 25] if share == 1 / 36 else [1, 5])
    assert budget.is_spent(share)
