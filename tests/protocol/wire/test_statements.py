"""Tests of what nodes sign: every part of it counts."""

import copy
from dataclasses import fields, replace
from typing import Any

from protocol.wire.examples import example

from dubhe_flwr.protocol.wire.statements import parameters_digest

JOIN: Any = example("join request")


def other_value(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if value is None:
        return 3
    return value + ("1" if isinstance(value, str) else 1)


def test_every_parameter_is_in_the_digest() -> None:
    """No two announcements that differ have the same digest, whichever field it is."""
    digests = {parameters_digest(JOIN)}
    for field in fields(JOIN):
        changed = copy.copy(JOIN)
        object.__setattr__(changed, field.name, other_value(getattr(JOIN, field.name)))
        digests.add(parameters_digest(changed))
    assert len(digests) == 1 + len(fields(JOIN))


def test_text_without_a_utf_8_form_has_a_digest() -> None:
    """A server that announces it gets a refusal, not a node that fails."""
    digests = {parameters_digest(replace(JOIN, rule=rule)) for rule in ("\ud800", "\ud801", "?")}
    assert len(digests) == 3
