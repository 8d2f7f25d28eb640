"""Tests of the bodies: each accepts what it specifies and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from vectors.inputs import EXAMPLES, untyped
from vectors.reference import fields_of

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol.wire.codec import decode
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS
from dubhe_flwr.protocol.wire.roster import Roster
from dubhe_flwr.protocol.wire.statements import parameters_digest


def example(name: str) -> Any:
    """Return a message of the vectors, such as `join request`."""
    case = EXAMPLES[name]
    kinds = REQUESTS if case["kind"] == "request" else REPLIES
    return decode(kinds[case["stage"]], fields_of(untyped(case["values"])))


JOIN, JOINED = example("join request"), example("join reply, weighted")
PARTICIPATE = example("participate request")


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (JOIN, {"rule": "a" * 2**16, "rule_settings": " " * 2**16}),
        (JOIN, {"num_participants": 1, "min_cohort": 1, "max_clients": 1}),
        (PARTICIPATE, {"num_rounds": 2**8, "num_tries": 2**8}),
        (example("settle request").rule_sum, {"num_clients": 1, "number": 0}),
        (example("appoint request"), {"roster": Roster(b"", (), b"", b"")}),
        (JOINED, {"num_classes": 2, "num_examples": 1}),
        (JOINED, {"num_examples": 2**42 - 1}),
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


def test_text_without_a_utf_8_form_has_a_digest() -> None:
    """A server that announces it gets a refusal, not a node that fails."""
    digests = {parameters_digest(replace(JOIN, rule=rule)) for rule in ("\ud800", "\ud801", "?")}
    assert len(digests) == 3
