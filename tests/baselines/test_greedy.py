"""Tests of greedy selection against a literal implementation of what it says."""

from math import inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.baselines import GreedySelector, greedy_selection
from dubhe_flwr.core import label_distribution
from dubhe_flwr.errors import SettingsError

TOLERANCE = 1e-12


def divergence(members: list[list[float]]) -> float:
    """Return KL(p_o || p_u) of the mean of some rows, term by term."""
    num_classes = len(members[0])
    population = [sum(row[c] for row in members) / len(members) for c in range(num_classes)]
    return sum(share * log(share * num_classes) for share in population if share > 0)


@given(
    seed=st.integers(0, 2**32),
    num_clients=st.integers(1, 12),
    num_classes=st.integers(1, 6),
    data=st.data(),
)
def test_each_choice_is_the_best_of_those_left(
    seed: int, num_clients: int, num_classes: int, data: st.DataObject
) -> None:
    """No other free client would bring the population closer to uniform, the first being random."""
    counts = np.random.default_rng(seed).integers(0, 4, (num_clients, num_classes))
    counts[:, 0] += counts.sum(axis=1) == 0
    rows = label_distribution(counts).tolist()
    number = data.draw(st.integers(1, num_clients))
    chosen = greedy_selection(rows, number, np.random.default_rng(seed)).tolist()
    assert chosen[0] == np.random.default_rng(seed).integers(num_clients)
    assert len(set(chosen)) == len(chosen) == number
    for size in range(1, number):
        before = [rows[row] for row in chosen[:size]]
        best = inf
        for row in set(range(num_clients)) - set(chosen[:size]):
            best = min(best, divergence([*before, rows[row]]))
        assert divergence([*before, rows[chosen[size]]]) <= best + TOLERANCE


def test_of_equal_ones_the_first() -> None:
    """Ties go to the lower index."""
    chosen = greedy_selection([[1, 0], [1, 0], [0, 1], [0, 1]], 3, np.random.default_rng(0))
    assert chosen.tolist() == [3, 0, 1]


def test_the_first_client_is_drawn_uniformly() -> None:
    """Over 3000 draws each of three comes first in 1000, give or take 6 sigma; rows stay."""
    rng, rows = np.random.default_rng(0), np.eye(3)
    firsts = [int(greedy_selection(rows, 3, rng)[0]) for _ in range(3000)]
    assert np.array_equal(rows, np.eye(3))
    assert np.abs(np.bincount(firsts) - 1000).max() < 6 * np.sqrt(3000 * 2 / 9)


def test_rows_belong_to_aliases() -> None:
    """Whatever nodes are there, each alias stands for its row."""
    rows = np.eye(4)[[0, 0, 0, 1, 0, 2, 3]]
    selector = GreedySelector(4, rows, seed=7)
    aliases = ["1", "3", "5", "6"]
    assert selector.choose(aliases, np.random.default_rng(0)).tolist() == [0, 1, 2, 3]
    selector = GreedySelector(3, rows, seed=7)
    for seed in range(10):
        chosen = selector.choose(["0", "1", "2", "3", "5"], np.random.default_rng(seed)).tolist()
        assert chosen[1:] == [3, 4]


def test_fewer_clients_than_wanted() -> None:
    """Then all of them train."""
    selector = GreedySelector(9, np.eye(3), seed=7)
    assert selector.choose(["0", "2"], np.random.default_rng(0)).tolist() == [0, 1]


@pytest.mark.parametrize("alias", ["3", "-1", "laptop", "01", "1.0", "", "²"])
def test_an_alias_without_a_row_is_refused(alias: str) -> None:
    """Only partition-ids that are rows have a label distribution."""
    selector = GreedySelector(2, np.eye(3), seed=7)
    with pytest.raises(SettingsError, match=r"has no label distribution; greedy selection is for"):
        selector.choose(["0", alias], np.random.default_rng(0))


@pytest.mark.parametrize("num_participants", [0, -1, 4])
def test_more_than_there_are_is_refused(num_participants: int) -> None:
    """K is from 1 to N."""
    with pytest.raises(SettingsError, match=f"num_participants={num_participants} must be from 1"):
        greedy_selection(np.eye(3), num_participants, np.random.default_rng(0))


@pytest.mark.parametrize("rows", [[0.5, 0.5], 1.0, [[[1.0]]], [[0.5, -0.5]], [[float("nan"), 1.0]]])
def test_what_is_no_table_of_shares_is_refused(rows: Any) -> None:
    """One row of non-negative numbers for each client is wanted."""
    for use in (GreedySelector, lambda n, of: greedy_selection(of, n, np.random.default_rng(0))):
        with pytest.raises(SettingsError, match="one row of non-negative shares for each client"):
            use(1, rows)
