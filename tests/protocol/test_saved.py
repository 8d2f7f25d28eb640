"""Tests of the checks that every saved state passes."""

from typing import Any

import pytest

from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol.saved import check_saved


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["number"], "here: a list is not a saved state"),
        ({"any": 1}, "here: key 'number' is missing"),
        ({"number": 1, "any": 1, "more": 1}, "here: key 'more' is unknown"),
        ({"number": True, "any": 1}, "here.number: a bool does not belong there"),
        ({"number": -1, "any": 1}, "here.number: -1 is negative"),
    ],
)
def test_anything_else_is_refused(data: Any, message: str) -> None:
    """The error says which key is wrong, where it is, and what to do."""
    with pytest.raises(CheckpointError, match=f"^{message}; load a state that this version"):
        check_saved(data, {"number": int, "any": object}, "here")
