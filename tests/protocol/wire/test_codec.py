"""Tests of the codec: what is encoded decodes, and nothing else does."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol.wire.codec import decode, encode, wire_size


@dataclass(frozen=True)
class Inner:
    """What stands within another."""

    number: int
    note: str | None = None


@dataclass(frozen=True)
class Example:
    """One field of each kind."""

    flag: bool
    number: int
    share: float
    name: str
    data: bytes
    whole_numbers: tuple[int, ...]
    shares: tuple[float, ...]
    inner_one: Inner
    inner_two: Inner | None = None
    some_numbers: tuple[int, ...] | None = None


EXAMPLE = Example(True, 1, 0.5, "a", b"b", (3, 4), (0.25,), Inner(5))


@pytest.mark.parametrize(
    "message",
    [
        replace(EXAMPLE, number=2**63 - 1, share=float("inf"), name="\0é€😀", data=bytes(2)),
        replace(EXAMPLE, number=-(2**63), share=-0.0, name="", data=b"", shares=()),
        replace(EXAMPLE, inner_two=Inner(6, ""), some_numbers=(2**63 - 1, -(2**63))),
    ],
)
def test_round_trip(message: Example) -> None:
    """Every message comes back as it was, with the largest and the smallest number as well.

    There must be exactly as many other fields as the caller says.
    """
    fields = {**encode(message), "epoch": b""}
    assert decode(Example, fields, num_others=1) == message
    for num_others in (0, 2):
        with pytest.raises(MalformedMessageError, match="unknown"):
            decode(Example, fields, num_others)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in encode(EXAMPLE)),
        *(("flag", 1), ("number", True), ("number", 1.0), ("share", 1), ("name", b"a")),
        *(("number", 2**63), ("number", -(2**63) - 1)),
        pytest.param("number", 10**5000, id="number of 5000 digits"),
        *(("data", "swordfish"), ("data", bytearray(b"b"))),
        *(("whole-numbers", (3, 4)), ("whole-numbers", bytes(7)), ("shares", bytes(9))),
        *(("whole-numbers", bytearray(8)), ("some-numbers", bytes(7)), ("some-numbers", [])),
        *(("inner-one.number", "5"), ("inner-two.number", "5"), ("inner-two.note", "alone")),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    """Types are exact: no bool for an int, no int for a float, and 64 bits for an int.

    A refusal never quotes the value: it may be a secret.
    """
    fields: dict[str, object] = {**encode(EXAMPLE), name: value}
    with pytest.raises(MalformedMessageError) as refused:
        decode(Example, fields)
    assert "swordfish" not in str(refused.value)
    if value is None:  # missing
        del fields[name]
        with pytest.raises(MalformedMessageError, match=name):
            decode(Example, fields)


@pytest.mark.parametrize(
    ("name", "longest", "unit"),
    [
        ("data", 2**24, b"a"),
        ("name", 2**24, "a"),
        ("whole-numbers", 2**16, bytes(8)),
        ("shares", 2**16, bytes(8)),
    ],
)
def test_a_value_has_a_maximal_length(name: str, longest: int, unit: Any) -> None:
    """Bytes, text and lists of maximal length are accepted, longer ones are not."""
    fields = encode(EXAMPLE)
    assert encode(decode(Example, {**fields, name: unit * longest}))[name] == unit * longest
    with pytest.raises(MalformedMessageError, match=f"field '{name}'"):
        decode(Example, {**fields, name: unit * (longest + 1)})


def test_wire_size_counts_names_and_values() -> None:
    """A number is eight bytes, a bool one, text its UTF-8 form."""
    assert wire_size({"a": True}) == 2
    assert wire_size({"ab": 7}) == wire_size({"ab": 0.5}) == 10
    assert wire_size({"a": b"123", "b": "é€"}) == 4 + 6
    assert wire_size({"a": "\ud800"}) == 2
