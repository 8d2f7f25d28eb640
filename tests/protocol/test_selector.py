"""Tests of what all selectors share."""

from typing import Any

import pytest

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import Selector


class Forgetful(Selector[None]):
    """Chooses everybody and keeps nothing."""

    num_participants = 1

    def initial_state(self) -> None:
        """Return nothing."""

    def begin_round(self, *_: Any) -> Any:
        """Choose nobody."""

    def step(self, *_: Any) -> Any:
        """Never."""


def test_a_selector_that_keeps_no_state_says_so() -> None:
    """The error names the class and the methods that it lacks."""
    with pytest.raises(CheckpointError, match=r"Forgetful keeps no state; .*leave out checkpoint"):
        Forgetful().state_dict(None)
    with pytest.raises(CheckpointError, match="Forgetful loads no state; give it load_state_dict"):
        Forgetful().load_state_dict({}, interrupted=False)
