"""Who attacks prices, and what it gets in numbers: those of the table in the threat model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol.federation import counts_with_rare_classes
from scipy.stats import binom

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.rules import Frame, Own, Population, Prices, Settled, Unsettled

N, C, K, V = 100, 10, 10, 50
COUNTS = counts_with_rare_classes(N)
FRAME = Frame(C, 256)
POPULATION = Population(FRAME, N, K, V)
RULE = Prices()
Floats = NDArray[np.float64]
Lie = Callable[[int, NDArray[np.int64]], NDArray[np.int64]]


def shares_of(rows: NDArray[np.int64]) -> Floats:
    """Return label distributions."""
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def settle(
    rows: NDArray[np.int64], lie: Lie = lambda _row, told: told, seed: int = 0
) -> tuple[Floats, list[NDArray[np.int64]]]:
    """Return each client's probability, and the sums that all decrypt, where some may lie."""
    owns = [Own(row, rng=generator(seed, "rounding", k)) for k, row in enumerate(rows)]
    told: Sequence[Any] = [RULE.contribution(own, FRAME) for own in owns]
    memories: list[Any] = [None] * len(rows)
    sums = []
    while True:
        total = np.sum([lie(k, each) for k, each in enumerate(told)], axis=0)
        sums.append(total)
        outcomes: list[Settled | Unsettled] = [
            RULE.settle(own, POPULATION, memory, total)
            for own, memory in zip(owns, memories, strict=True)
        ]
        going_on = [outcome for outcome in outcomes if isinstance(outcome, Unsettled)]
        if not going_on:
            return np.array([outcome.probability for outcome in outcomes]), sums
        told = [outcome.contribution for outcome in going_on]
        memories = [outcome.memory for outcome in going_on]


SLOTS: dict[bool, dict[str, Any]] = {
    True: {
        "prices": slice(3, 12),
        "mean": slice(13, 22),
        "matrix": slice(22, 67),
        "spread": slice(67, 77),
    },
    False: {"volunteers": 6, "moment": slice(7, 16), "matrix": slice(26, 71)},
}
"""Of the numbers at the opening and later."""


def spoilt(opening: Mapping[str, float], later: Mapping[str, float]) -> Lie:
    """Return the lie of the first client: parts of the largest number in blocks of slots."""
    largest = RULE.registration_slots(FRAME).largest

    def lie(row: int, told: NDArray[np.int64]) -> NDArray[np.int64]:
        is_opening = len(told) == RULE.registration_slots(FRAME).number
        slots, changed = SLOTS[is_opening], told.copy()
        for block, part in (opening if is_opening else later).items():
            changed[slots[block]] = part * largest
        return told if row else changed

    return lie


def moments(sums: NDArray[np.int64], number: int) -> Floats:
    """Return the sum of label distributions that the sum at the opening tells."""
    largest = RULE.registration_slots(FRAME).largest
    # Of P (1 - P) x, with P = 1/2 for all; before it stand what is remembered and two numbers more.
    start = 2 + 1 + (C - 1) + 1
    told = np.sqrt(2) * (2 * sums[start : start + C - 1] / largest - number)
    return np.append(told, -told.sum()) + number / C


class TestACuriousNode:
    """An honest node looks at all that it decrypts in three epochs."""

    def test_three_epochs_of_the_same_nodes_tell_no_more_than_one(self) -> None:
        """It sees the same sums three times: fewer numbers than half the unknowns N (C - 1)."""
        runs = [settle(COUNTS, seed=seed)[1] for seed in range(3)]
        assert all(sum(map(len, sums)) < N * (C - 1) / 2 for sums in runs)
        one, *others = (moments(sums[0], N) for sums in runs)
        assert max(np.abs(one - other).sum() for other in others) < 0.02

    def test_epochs_that_differ_by_one_client_tell_that_client(self) -> None:
        """It subtracts one sum from the other: the newcomer's p_l but for 0.001, in L1."""
        rows = COUNTS
        owns = [Own(row, rng=generator(k, "newcomer")) for k, row in enumerate((*rows, *rows[1:]))]
        told = [RULE.contribution(own, FRAME) for own in owns]
        found = moments(np.sum(told[:N], axis=0), N) - moments(np.sum(told[N:], axis=0), N - 1)
        shares = shares_of(rows)
        assert np.abs(found - shares[0]).sum() < 0.01
        assert np.abs(shares.mean(axis=0) - shares[0]).sum() > 1.0

    def test_epochs_of_random_samples_tell_hardly_anything_of_one(self) -> None:
        """It knows who was in three samples of 60, and is off by 0.97; the mean of all by 0.99."""
        shares, rng = shares_of(COUNTS), np.random.default_rng(0)
        member = np.array([rng.permutation(N) < 60 for _ in range(3)], dtype=float)
        mean = shares.mean(axis=0)
        guess = mean + np.linalg.pinv(member) @ (member @ (shares - mean))
        near, by_mean = (np.abs(each - shares).sum(axis=1).mean() for each in (guess, mean))
        assert 0.96 < near < by_mean < 1.0


class TestAWatchedNode:
    """A server counts how often a node says yes."""

    def test_however_many_draws_there_are_it_is_one_of_sixteen_levels(self) -> None:
        """At most 4 bits of a node in an epoch: six epochs have 16 probabilities in all."""
        levels = {each for seed in range(6) for each in settle(COUNTS, seed=seed)[0].round(9)}
        assert len(levels) == 16

    @pytest.mark.parametrize(("num_draws", "bits"), [(20, 1.9), (50, 2.4), (1000, 3.4)])
    def test_what_draws_tell(self, num_draws: int, bits: float) -> None:
        """Of the 3.6 bits that the levels of a hundred nodes have, and the server's best guess."""
        levels, sizes = np.unique(settle(COUNTS)[0], return_counts=True)
        prior = sizes / sizes.sum()
        joint = prior * binom.pmf(np.arange(num_draws + 1)[:, None], num_draws, levels)
        seen = joint.sum(axis=1, keepdims=True)
        kept = joint > 1e-300
        told = np.sum(joint[kept] * np.log2(joint[kept] / (prior * seen)[kept]))
        assert told == pytest.approx(bits, abs=0.06)


class TestALyingClient:
    """One client tells other numbers than its own."""

    @pytest.mark.parametrize("label", [0, 9])
    def test_a_valid_lie_moves_the_prices_as_one_client_can(self, label: int) -> None:
        """It says that it has a single class: volunteers' data is at 0.352 in place of 0.348."""
        honest, _ = settle(COUNTS)
        rows = COUNTS.copy()
        rows[0] = np.eye(C, dtype=np.int64)[label] * 1000
        lied, _ = settle(rows)
        everybody, *found = (
            np.abs(p @ shares_of(COUNTS) / p.sum() - 1 / C).sum()
            for p in (np.ones(N), honest, np.append(0.0, lied[1:]))
        )
        assert everybody == pytest.approx(0.616, abs=0.001)
        assert found == pytest.approx([0.348, 0.352], abs=0.002)

    @pytest.mark.parametrize("block", ["mean", "matrix"])
    def test_numbers_that_do_not_fit_each_other_are_found(self, block: str) -> None:
        """It tells the largest number for all means, or for the whole matrix, and nothing else."""
        with pytest.raises(RefusedError):
            settle(COUNTS, spoilt({block: 1.0}, {}))

    def test_the_worst_numbers_that_fit_leave_half_of_the_gain(self) -> None:
        """Of some thousand lies in whole blocks none is worse: 0.47; without prices 0.616."""
        worst = spoilt({"spread": 1.0, "matrix": 0.5}, {"volunteers": 0.0, "moment": 0.0})
        found = np.append(0.0, settle(COUNTS, worst)[0][1:])
        distance = np.abs(found @ shares_of(COUNTS) / found.sum() - 1 / C).sum()
        assert distance == pytest.approx(0.471, abs=0.01)

    @pytest.mark.parametrize("weight", [3, 10, 60])
    def test_a_client_that_tells_more_than_one_can_is_found(self, weight: int) -> None:
        """It tells three times its numbers, or sixty times: every node refuses the sum."""
        with pytest.raises(RefusedError):
            settle(COUNTS, lambda row, told: told * (1 if row else weight))
