"""Tests of the table of labels that oracles see."""

from typing import Any

import numpy as np
import pytest

from dubhe_flwr.baselines.labels import label_table, rows_of
from dubhe_flwr.errors import SettingsError


def test_a_table_is_taken_as_it_is() -> None:
    """Counts stay counts; the order of clients and classes stays."""
    np.testing.assert_array_equal(label_table([[3, 1], [0, 2]]), [[3.0, 1.0], [0.0, 2.0]])


@pytest.mark.parametrize(
    "labels",
    [
        [0.5, 0.5],
        1.0,
        [[[1.0]]],
        [[0.5, -0.5]],
        [[float("nan"), 1.0]],
        [[float("inf"), 1.0]],
        [[1, 0], [0, 0]],
        [[]],
    ],
)
def test_what_is_not_a_table_is_refused(labels: Any) -> None:
    """One row of finite non-negative numbers for each client is wanted, none all zero."""
    with pytest.raises(SettingsError, match="must be one row of finite non-negative counts"):
        label_table(labels)


def test_rows_belong_to_aliases() -> None:
    """An alias is the number of a row, whatever its place."""
    assert rows_of(["2", "10", "0"], 11) == [2, 10, 0]


@pytest.mark.parametrize("alias", ["3", "-1", "laptop", "01", "1.0", "", "²"])
def test_an_alias_without_a_row_is_refused(alias: str) -> None:
    """Only partition-ids that are rows are known."""
    with pytest.raises(
        SettingsError, match="is not a row of the 3 that hold the labels; selection"
    ):
        rows_of(["0", alias], 3)
