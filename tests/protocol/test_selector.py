"""Tests of what all selectors share."""

from typing import Any

import numpy as np
import pytest

from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.selector import Selector

SIMPLE: Any = type("Simple", (), {})()
"""A selector without a method of its own."""


def test_a_plan_made_ahead_holds_while_its_clients_are_there() -> None:
    """A plan holds while its clients are connected; otherwise the round is planned again."""
    plan = Plan(5, (1, 2), ("a", "b"))
    assert Selector.adapted(SIMPLE, None, plan, (1, 2, 3), (1, 2, 3)) is plan
    assert Selector.adapted(SIMPLE, None, plan, (1, 2, 3), (1, 3)) is None


def test_a_selector_may_draw_with_numpy() -> None:
    """Flower sends messages to Python's integers only."""
    drawn: Any = np.random.default_rng(0).choice([2**62, 9, 7], 2, replace=False)
    assert [type(node_id) for node_id in Plan(1, drawn, ("a", "b")).participants] == [int, int]
    with pytest.raises(SettingsError, match=r"participants=\(3.7,\) must be node ids, which are"):
        Plan(1, (3.7,), ("a",))  # type: ignore[arg-type]


def test_a_selector_that_keeps_no_state_says_so() -> None:
    """The error names the class and the methods that it lacks."""
    with pytest.raises(CheckpointError, match=r"Simple keeps no state; .*leave out checkpoint"):
        Selector.state_dict(SIMPLE, None)
    with pytest.raises(CheckpointError, match="Simple loads no state; define load_state_dict"):
        Selector.load_state_dict(SIMPLE, {})
