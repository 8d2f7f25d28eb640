"""Tests of what label oracles share: the label table and recorded choices."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, node_policies, skewed_counts

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_lab.baselines import FedCbsSelector, FedEntOptSelector, FlipsSelector, GreedySelector
from dubhe_lab.baselines.roll_call import Past

COUNTS = skewed_counts(20)
ORACLES: list[Any] = [FlipsSelector, FedCbsSelector, FedEntOptSelector]


def federation(selector: Any, seed: int = 0) -> Federation[Any]:
    """Return a server and twenty nodes."""
    return Federation(selector, node_policies(COUNTS), seed=seed)


def play(nodes: Federation[Any], rounds: range) -> list[Plan]:
    """Play rounds while nodes come and go."""
    return [
        nodes.play(r, [node_id for row, node_id in enumerate(nodes.ids) if (row + r) % 4])
        for r in rounds
    ]


@pytest.mark.parametrize("oracle", ORACLES)
def test_the_past_counts_planned_rounds(oracle: Any) -> None:
    """Rounds and choices are counted by alias, even when every client is chosen."""
    nodes = federation(oracle(4, COUNTS, seed=7))
    plans = [*play(nodes, range(1, 6)), nodes.play(6, nodes.ids[:3])]
    assert plans[-1].aliases == ("0", "1", "2")
    assert nodes.state.past.num_rounds == 6
    assert nodes.state.past.times == Counter(alias for plan in plans for alias in plan.aliases)


@pytest.mark.parametrize("oracle", [*ORACLES, GreedySelector])
def test_with_fewer_than_k_clients_all_train(oracle: Any) -> None:
    """With fewer than K clients all of them train, in alias order."""
    assert federation(oracle(30, COUNTS, seed=7)).play(1).aliases == tuple(map(str, range(20)))


@pytest.mark.parametrize("oracle", [GreedySelector, FedCbsSelector, FedEntOptSelector])
def test_rows_belong_to_aliases(oracle: Any) -> None:
    """Whichever nodes are connected, each alias finds its own row."""
    rows = np.eye(4)[[0, 0, 0, 1, 0, 2, 3]]
    for seed in range(10):
        selector = oracle(3, rows, seed)
        chosen = selector.choose(["0", "1", "2", "3", "5"], Past(), np.random.default_rng(seed))
        assert {3, 4} < set(chosen.tolist())


PAST = Past().followed_by("52").followed_by("7").followed_by("5")


def test_rounds_and_choices_are_counted() -> None:
    """A client chosen again moves to the end; within a round the order of choice is kept."""
    assert PAST.num_rounds == 3
    assert PAST.times_of("2579").tolist() == [1, 2, 1, 0]
    assert [PAST.recent(number) for number in (0, 2, 9)] == [[], ["7", "5"], ["2", "7", "5"]]
    assert Past().followed_by("31").recent(1) == ["1"]


@pytest.mark.parametrize(
    "labels", [[0.5, 0.5], 1, [[[1]]], [[0.5, -0.5]], [[np.nan, 1]], [[np.inf, 1]], [[]], [[0, 0]]]
)
def test_a_bad_label_table_is_refused(labels: Any) -> None:
    """A label table needs one row per client of finite non-negative numbers, none all zero."""
    with pytest.raises(SettingsError, match="must have one row per client of finite"):
        GreedySelector(2, labels)


@pytest.mark.parametrize("alias", ["3", "-1", "laptop", "01", "1.0", "", "²"])
def test_an_alias_without_a_row_is_refused(alias: str) -> None:
    """Only aliases that are row numbers are known, in any order."""
    assert GreedySelector(2, np.ones((11, 2))).rows_of(["2", "10", "0"]).tolist() == [2, 10, 0]
    with pytest.raises(SettingsError, match="has no row in the label table of 3 rows"):
        GreedySelector(2, np.ones((3, 2))).rows_of(["0", alias])
