"""Tests of FedEntOpt against a worked example, a literal implementation, and its buffer."""

from math import inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol.federation import Federation, node_policies, skewed_counts

from dubhe_flwr.baselines import FedEntOptSelector, greedy_selection
from dubhe_flwr.baselines.fedentopt import entropy_selection, label_entropy
from dubhe_flwr.baselines.past import Past
from dubhe_flwr.core import generator
from dubhe_flwr.errors import SettingsError

TOLERANCE = 1e-12


def test_a_worked_example_of_the_formula() -> None:
    """After a client of counts (8, 0), each of the others leads to the entropy found by hand."""
    others = np.array([[7, 1], [0, 2], [0, 8], [0, 24]])
    # Shares (15, 1) / 16, (8, 2) / 10, (1, 1) / 2 and (1, 3) / 4:
    by_hand = [0.233792, 0.500402, 0.693147, 0.562335]
    np.testing.assert_allclose(label_entropy(np.add([8, 0], others)), by_hand, atol=1e-6)
    counts = [[8, 0], *others.tolist()]
    seed = next(s for s in range(100) if np.random.default_rng(s).integers(5) == 0)
    chosen = entropy_selection(counts, 3, np.random.default_rng(seed))
    # Then (15, 9), (8, 10) and (8, 32) are left: (0, 2) is best, with shares of 4/9 and 5/9.
    assert chosen.tolist() == [0, 3, 2]


@given(
    seed=st.integers(0, 2**32),
    num_clients=st.integers(1, 12),
    num_classes=st.integers(1, 6),
    data=st.data(),
)
def test_each_choice_is_the_best_of_those_left(
    seed: int, num_clients: int, num_classes: int, data: st.DataObject
) -> None:
    """No other free client would raise the entropy more, the first being random."""
    counts = np.random.default_rng(seed).integers(0, 9, (num_clients, num_classes))
    counts[:, 0] += counts.sum(axis=1) == 0
    rows: list[list[int]] = counts.tolist()
    number = data.draw(st.integers(1, num_clients))
    chosen = entropy_selection(counts, number, np.random.default_rng(seed)).tolist()
    assert chosen[0] == np.random.default_rng(seed).integers(num_clients)
    assert len(set(chosen)) == len(chosen) == number

    def entropy(members: list[int]) -> float:
        total = [sum(rows[m][c] for m in members) for c in range(num_classes)]
        shares = [number / sum(total) for number in total]
        return -sum(share * log(share) for share in shares if share > 0)

    for size in range(1, number):
        before, best = chosen[:size], -inf
        for row in set(range(num_clients)) - set(before):
            best = max(best, entropy([*before, row]))
        assert entropy(chosen[: size + 1]) >= best - TOLERANCE


def test_without_a_buffer_and_with_equal_sizes_it_is_greedy_selection() -> None:
    """KL(p || uniform) = ln C - H(p)."""
    shares = generator(0, "shares").dirichlet(np.full(5, 0.3), size=40)
    for seed in range(5):
        chosen, greedy = (
            select(shares, 8, np.random.default_rng(seed)).tolist()
            for select in (entropy_selection, greedy_selection)
        )
        assert chosen == greedy


def test_of_equal_ones_the_first() -> None:
    """Ties go to the lower index."""
    chosen = entropy_selection([[1, 0], [1, 0], [0, 1], [0, 1]], 3, np.random.default_rng(0))
    assert chosen.tolist() == [3, 0, 1]


@pytest.mark.parametrize(
    ("share", "rests"), [(0.0, 0), (0.25, 1), (0.5, 2), (0.7, 2), (0.75, 3), (1.0, 3)]
)
def test_who_was_chosen_rests(share: float, rests: int) -> None:
    """Twelve clients, three a round: Q = 12 times the share keeps them out for Q / 3 rounds."""
    counts = skewed_counts(12)
    selector = FedEntOptSelector(3, counts, seed=7, buffer_share=share)
    nodes = Federation(selector, node_policies(counts))
    sets = [set(nodes.play(server_round).aliases) for server_round in range(1, 25)]
    apart = [
        later - earlier - 1
        for earlier in range(24)
        for later in range(earlier + 1, 24)
        if sets[earlier] & sets[later]
    ]
    assert min(apart) == rests


def test_half_of_the_clients_rest_by_default() -> None:
    """Q is half of those that are there, and the oldest ones leave first."""
    selector = FedEntOptSelector(1, np.eye(6), seed=7)
    past = Past(4, {"3": 1, "1": 1, "0": 1, "5": 1})
    rng = np.random.default_rng(0)
    first = {int(selector.choose(np.arange(6), past, rng)[0]) for _ in range(100)}
    assert first == {2, 3, 4}


def test_those_who_left_keep_their_place() -> None:
    """Of six with four there, two rest; the last two chosen are one that is there and one not."""
    selector = FedEntOptSelector(1, np.eye(6), seed=7)
    past = Past(4, {"3": 1, "1": 1, "0": 1, "5": 1})
    rows, rng = np.array([0, 1, 2, 3]), np.random.default_rng(0)
    first = {int(selector.choose(rows, past, rng)[0]) for _ in range(100)}
    assert first == {1, 2, 3}


def test_rows_belong_to_aliases() -> None:
    """Whatever nodes are there, each row stands for its own labels."""
    selector = FedEntOptSelector(2, np.eye(3)[[0, 0, 0, 1, 0, 2]], seed=7)
    for seed in range(10):
        chosen = selector.choose(np.array([1, 2, 3]), Past(), np.random.default_rng(seed))
        assert 2 in chosen


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_beyond_all_is_refused(share: float) -> None:
    """It is from 0 to 1."""
    with pytest.raises(SettingsError, match=f"buffer_share={share} must be from 0 to 1"):
        FedEntOptSelector(1, np.eye(3), buffer_share=share)


@pytest.mark.parametrize("num_participants", [0, -1, 4])
def test_more_than_there_are_is_refused(num_participants: Any) -> None:
    """K is from 1 to N."""
    with pytest.raises(SettingsError, match=f"num_participants={num_participants} must be from 1"):
        entropy_selection(np.eye(3), num_participants, np.random.default_rng(0))
