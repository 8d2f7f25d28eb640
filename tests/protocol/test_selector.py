"""Tests of what all selectors share."""

from typing import Any

import pytest

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import Selector


def test_a_selector_that_keeps_no_state_says_so() -> None:
    """The error names the class and the methods that it lacks."""
    forgetful: Any = type("Forgetful", (), {})()
    with pytest.raises(CheckpointError, match=r"Forgetful keeps no state; .*leave out checkpoint"):
        Selector.state_dict(forgetful, None)
    with pytest.raises(CheckpointError, match="Forgetful loads no state; give it load_state_dict"):
        Selector.load_state_dict(forgetful, {})
