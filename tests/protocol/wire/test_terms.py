"""Tests of what both sides derive from the terms of an epoch."""

from dataclasses import replace
from typing import Any

import pytest

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.terms import Terms
from dubhe_flwr.rules import Paper

ANNOUNCED = JoinRequest("paper", Paper((1, 2, 10)).to_json(), 20, 2048, 1000, 3)


@pytest.mark.parametrize(
    ("change", "num_classes"),
    [
        ({"key_bits": 8192, "max_clients": 2**40 - 1}, 10),
        ({"key_bits": 512}, 10),
        ({"rule_settings": Paper((4096,)).to_json()}, 4096),
    ],
)
def test_terms_at_the_limit_work(change: dict[str, Any], num_classes: int) -> None:
    """The limits themselves are allowed."""
    assert Terms(replace(ANNOUNCED, **change), num_classes).vault


def test_the_papers_rule_continues_no_registration() -> None:
    """It has no state from which another registration could start."""
    with pytest.raises(RefusedError, match="cannot continue"):
        Terms(replace(ANNOUNCED, continues=bytes(16)), 10)
