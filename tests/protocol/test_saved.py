"""Tests of the checks that every saved state passes."""

from typing import Any

import pytest

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.saved import check_saved

KINDS: dict[str, type] = {"name": str, "number": int, "any": object}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["name"], "here: a list is not a saved state"),
        ({"name": "a", "any": 1}, "here: key 'number' is missing"),
        ({"name": "a", "number": 1, "any": 1, "more": 1}, "here: key 'more' is unknown"),
        ({"name": 5, "number": 1, "any": 1}, "here.name: a int does not belong there"),
        ({"name": "a", "number": True, "any": 1}, "here.number: a bool does not belong there"),
        ({"name": "a", "number": 1.0, "any": 1}, "here.number: a float does not belong there"),
        ({"name": "a", "number": -1, "any": 1}, "here.number: -1 is negative"),
    ],
)
def test_anything_else_is_refused(data: Any, message: str) -> None:
    """The error says which key is wrong, where it is, and what to do."""
    with pytest.raises(CheckpointError, match=f"^{message}; load a state that this version"):
        check_saved(data, KINDS, "here")
