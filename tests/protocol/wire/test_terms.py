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
        *(({}, number) for number in (9, 11, 4097)),
        ({"key_bits": 8208}, 10),
        ({"continues": bytes(16)}, 10),
        ({"rule_settings": Paper((1, 3, 26), "search").to_json(), "key_bits": 512}, 26),
    ],
)
def test_terms_that_cannot_work_are_refused(change: dict[str, Any], num_classes: int) -> None:
    """Invalid terms cause neither a crash nor endless work."""
    with pytest.raises(RefusedError):
        Terms(replace(ANNOUNCED, **change), num_classes)


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
