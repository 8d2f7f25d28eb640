"""Tests of the bodies: each accepts what it specifies and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.wire.examples import example

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol.wire.messages import JoinRequest, Roster

JOIN, JOINED = example("join request"), example("join reply, weighted")
PARTICIPATE = example("participate request")


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"rule": "a" * 2**16, "rule_settings": " " * 2**16}),
        (JOIN, {"num_participants": 1, "min_cohort": 1, "max_clients": 1}),
        (JOIN, {"max_draws": 0}),
        (JOIN, {"pool": 1}),
        (PARTICIPATE, {"num_clients": 1, "first_round": 1, "num_rounds": 1, "num_tries": 1}),
        (PARTICIPATE, {"num_rounds": 2**10, "num_tries": 2**10}),
        (example("settle request"), {"num_clients": 1, "exchange": 0}),
        (example("determine request"), {"num_tries": (1,)}),
        (example("keygen request"), {"roster": Roster(b"", (), b"", b"")}),
        (JOINED, {"num_classes": 2, "num_examples": 1}),
        (JOINED, {"num_examples": 2**42 - 1}),
        (example("register request"), {"mean_examples": 1.0}),
        (JOINED, {"status": 5, "num_classes": None}),
        (example("hello reply"), {"alias": "a" * 256}),
        (example("settle reply"), {"finding": (0.5,) * 64}),
    ],
)
def test_a_value_at_the_limit_is_accepted(message: Any, change: dict[str, Any]) -> None:
    """The limits themselves are allowed; the vectors have values beyond."""
    assert replace(message, **change) != message


@pytest.mark.parametrize(
    ("message", "change", "match"),
    [
        *((JOIN, {name: " " * (2**16 + 1)}, "too long") for name in ("rule", "rule_settings")),
        (JOINED, {"num_examples": 2**42}, "samples"),
    ],
)
def test_a_value_beyond_the_limit_is_refused(message: Any, change: Any, match: str) -> None:
    """What no vector covers: text that is too long, and a weight that would dominate."""
    with pytest.raises(MalformedMessageError, match=match):
        replace(message, **change)


def test_volunteers_and_what_their_draws_cost() -> None:
    """One draw for 4 K volunteers tells as much as four; at most N / 4 + 7 volunteer."""
    assert isinstance(JOIN, JoinRequest)
    wanted = [replace(JOIN, pool=pool).num_volunteers(400) for pool in (1, 4, 100)]
    assert wanted == [4, 16, 107]
    cost = [replace(JOIN, pool=pool).draws_charged(3, 20) for pool in (1, 2, 4)]
    assert cost == [3, 6, 9]
