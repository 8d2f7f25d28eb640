"""Tests of what all selectors share."""

from typing import Any

import pytest

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import Plan, Selector


@pytest.mark.parametrize(("eligible", "holds"), [((1, 2, 3), True), ((1, 3), False)])
def test_a_plan_made_ahead_holds_while_its_clients_are_there(
    eligible: tuple[int, ...], holds: bool
) -> None:
    """A plan holds while its clients are connected; otherwise the round is planned again."""
    plan, simple = Plan(5, (1, 2), ("a", "b")), type("Simple", (), {})()
    adapted = Selector.adapted(simple, None, plan, (1, 2, 3), eligible)
    assert adapted is (plan if holds else None)


def test_a_selector_that_keeps_no_state_says_so() -> None:
    """The error names the class and the methods that it lacks."""
    forgetful: Any = type("Forgetful", (), {})()
    with pytest.raises(CheckpointError, match=r"Forgetful keeps no state; .*leave out checkpoint"):
        Selector.state_dict(forgetful, None)
    with pytest.raises(CheckpointError, match="Forgetful loads no state; give it load_state_dict"):
        Selector.load_state_dict(forgetful, {})
