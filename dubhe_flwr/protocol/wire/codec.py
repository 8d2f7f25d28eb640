"""Encodes frozen dataclasses as flat fields, and decodes them: the one place that parses input.

Fields are a dictionary of plain values that fits both Flower's ConfigRecord and the config of an
EvaluateIns. A tuple of numbers travels as big-endian bytes, eight per number. A field that is None
is left out. The fields of a nested dataclass are prefixed with its name.
"""

import struct
import types
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from dubhe_flwr.errors import MalformedMessageError

Scalar = bool | int | float | str | bytes
Fields = dict[str, Scalar]

T = TypeVar("T")

_NUMBER_FORMATS = {tuple[int, ...]: "q", tuple[float, ...]: "d"}
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
MAX_BYTES = 2**24
"""Length of the longest accepted value; it has to hold all sealed keys of an epoch."""
_MAX_NUMBERS = 2**16


@dataclass(frozen=True, slots=True)
class Message:
    """Base class of the bodies of requests and replies."""


def require(condition: bool, sentence: str) -> None:
    """Raise `MalformedMessageError` unless a condition on a message's content holds."""
    if not condition:
        raise MalformedMessageError(sentence)


class _Kind(NamedTuple):
    """One field of a dataclass: its name, its key, and its type."""

    name: str
    key: str
    kind: Any
    number_format: str
    is_optional: bool
    is_nested: bool


@cache
def _kinds(message_class: Any) -> tuple[_Kind, ...]:
    found = []
    for name, kind in get_type_hints(message_class).items():
        is_optional = get_origin(kind) is types.UnionType
        if is_optional:
            kind = get_args(kind)[0]  # noqa: PLW2901 - the type without None
        number_format, is_nested = _NUMBER_FORMATS.get(kind, ""), is_dataclass(kind)
        key = name.replace("_", "-")
        found.append(_Kind(name, key, kind, number_format, is_optional, is_nested))
    return tuple(found)


@cache
def _first_key(message_class: Any) -> str:
    """Return a key that every message of a class has, to see whether an optional one was sent."""
    first = next(field for field in _kinds(message_class) if not field.is_optional)
    return f"{first.key}.{_first_key(first.kind)}" if first.is_nested else first.key


def encode(message: object) -> Fields:
    r"""Return the fields of a message.

    The message is a dataclass. Its fields are of the types in `Scalar`, tuples of int or of float,
    or dataclasses of the same form; any of them may be optional. Field names travel in kebab case.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Person:
    ...     name: str
    ...     ages: tuple[int, ...] | None = None
    >>> @dataclass(frozen=True)
    ... class Greeting:
    ...     first_person: Person
    >>> encode(Greeting(Person("Ada", (36,))))
    {'first-person.name': 'Ada', 'first-person.ages': b'\x00\x00\x00\x00\x00\x00\x00$'}
    """
    encoded: Fields = {}
    _encode(message, "", encoded)
    return encoded


def _encode(message: object, prefix: str, encoded: Fields) -> None:
    """Add the fields of a message, with a prefix before each key."""
    message_class: Any = type(message)
    for name, key, _, number_format, _, is_nested in _kinds(message_class):
        value = getattr(message, name)
        if value is None:
            continue
        if is_nested:
            _encode(value, f"{prefix}{key}.", encoded)
        elif number_format:
            encoded[prefix + key] = struct.pack(f">{len(value)}{number_format}", *value)
        else:
            encoded[prefix + key] = value


def decode(message_class: type[T], fields: Mapping[str, object], num_others: int = 0) -> T:
    """Return the message of a class that the fields encode.

    Exactly `num_others` of the fields are not part of it. Raises `MalformedMessageError` if
    a field is missing, unknown, of the wrong type (an int has 64 bits), or refused by the class
    itself.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Greeting:
    ...     age: int
    >>> decode(Greeting, {"age": 36})
    Greeting(age=36)
    >>> decode(Greeting, {"age": True})
    Traceback (most recent call last):
    dubhe_flwr.errors.MalformedMessageError: Greeting: field 'age' is not of type int.
    """
    message: T
    message, num_read = _decode(message_class, fields, "")
    if num_unknown := len(fields) - num_read - num_others:
        raise MalformedMessageError(f"{message_class.__name__}: {num_unknown} fields are unknown.")
    return message


def _decode(message_class: Any, fields: Mapping[str, object], prefix: str) -> tuple[Any, int]:
    """Return the message whose keys begin with the prefix, and its number of fields."""
    title, get, num_read = message_class.__name__, fields.get, 0
    values: list[object] = []
    for _, own_key, kind, number_format, is_optional, is_nested in _kinds(message_class):
        key = prefix + own_key
        value: Any = None
        if is_nested:
            if not is_optional or f"{key}.{_first_key(kind)}" in fields:
                value, num_inner = _decode(kind, fields, f"{key}.")
                num_read += num_inner
        elif type(value := get(key)) is kind:
            if kind is int and not _INT_MIN <= value <= _INT_MAX:
                raise MalformedMessageError(f"{title}: field {key!r} does not fit in 64 bits.")
            if (kind is bytes or kind is str) and len(value) > MAX_BYTES:
                raise MalformedMessageError(f"{title}: field {key!r} is too long.")
            num_read += 1
        elif key in fields or not is_optional:
            if not number_format:
                name = kind.__name__
                raise MalformedMessageError(f"{title}: field {key!r} is not of type {name}.")
            if type(value) is not bytes or len(value) % 8 or len(value) > 8 * _MAX_NUMBERS:
                raise MalformedMessageError(f"{title}: field {key!r} does not hold numbers.")
            value = struct.unpack(f">{len(value) // 8}{number_format}", value)
            num_read += 1
        values.append(value)
    return message_class(*values), num_read


def wire_size(fields: Mapping[str, object]) -> int:
    """Return the size of names and values in bytes: eight for a number, one for a bool.

    Examples
    --------
    >>> wire_size({"age": 36, "name": "Zoë"})
    19
    """
    size = sum(map(len, fields))
    for value in fields.values():
        if type(value) is bytes:  # faster than isinstance, which matters for many replies
            size += len(value)
        elif type(value) is str:
            size += len(value.encode(errors="replace"))
        else:
            size += 1 if type(value) is bool else 8
    return size
