"""How a frozen dataclass becomes flat fields and back; the one place where input is parsed.

The fields are a dictionary of plain values, so that they fit Flower's ConfigRecord as well as
the config of an EvaluateIns. A tuple of numbers travels as big-endian bytes, eight a number.
"""

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from dubhe_flwr.errors import MalformedMessageError

__all__ = ["Fields", "Scalar", "decode", "encode", "encoded_size", "wire_size"]

Scalar = bool | int | float | str | bytes
Fields = dict[str, Scalar]

T = TypeVar("T")

_NUMBER_FORMATS = {tuple[int, ...]: "q", tuple[float, ...]: "d"}
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


@cache
def _kinds(message_class: Any) -> tuple[tuple[str, str, Any, str], ...]:
    """Return attribute, key, type and, for a tuple, number format of each field."""
    return tuple(
        (name, name.replace("_", "-"), kind, _NUMBER_FORMATS.get(kind, ""))
        for name, kind in get_type_hints(message_class).items()
    )


def encode(message: object) -> Fields:
    r"""Return the fields of a message.

    Parameters
    ----------
    message : dataclass instance
        Its fields are of the types in `Scalar`, or tuples of int or of float.

    Returns
    -------
    dict
        Field names in kebab case, with plain values.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Greeting:
    ...     first_names: str
    ...     ages: tuple[int, ...]
    >>> encode(Greeting("Ada", (36,)))
    {'first-names': 'Ada', 'ages': b'\x00\x00\x00\x00\x00\x00\x00$'}
    """
    encoded: Fields = {}
    for name, key, _, number_format in _kinds(cast("Any", type(message))):
        value = getattr(message, name)
        encoded[key] = (
            struct.pack(f">{len(value)}{number_format}", *value) if number_format else value
        )
    return encoded


def decode(message_class: type[T], fields: Mapping[str, object], num_others: int = 0) -> T:
    """Return the message that the fields describe.

    Parameters
    ----------
    message_class : type
        The dataclass to make.
    fields : mapping of str to object
        Exactly the fields of that class, each of exactly its type; an int has 64 bits.
    num_others : int (default: 0)
        How many fields there are beside these, such as those of a header.

    Raises
    ------
    MalformedMessageError
        If a field is missing, unknown, of another type, or refused by the class itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Greeting:
    ...     age: int
    >>> decode(Greeting, {"age": 36})
    Greeting(age=36)
    >>> decode(Greeting, {"age": True})
    Traceback (most recent call last):
    dubhe_flwr.errors.MalformedMessageError: Greeting: field 'age' is not of type int.
    """
    name, get = message_class.__name__, fields.get
    hashable: Any = message_class
    values: list[object] = []
    for _, key, kind, number_format in _kinds(hashable):
        value = get(key)
        if number_format:
            if type(value) is not bytes or len(value) % 8:
                raise MalformedMessageError(f"{name}: field {key!r} holds no whole numbers.")
            value = struct.unpack(f">{len(value) // 8}{number_format}", value)
        elif type(value) is not kind:
            raise MalformedMessageError(f"{name}: field {key!r} is not of type {kind.__name__}.")
        elif kind is int and not _INT_MIN <= cast("int", value) <= _INT_MAX:
            raise MalformedMessageError(f"{name}: field {key!r} does not fit 64 bits.")
        values.append(value)
    if num_unknown := len(fields) - len(values) - num_others:
        raise MalformedMessageError(f"{name}: {num_unknown} fields are unknown.")
    return message_class(*values)


@cache
def _sizes(message_class: Any) -> tuple[int, tuple[tuple[str, bool], ...]]:
    """Return the bytes that all messages of a class have, and the fields that come on top."""
    kinds = _kinds(message_class)
    plain = sum(len(key) + {bool: 1, int: 8, float: 8}.get(kind, 0) for _, key, kind, _ in kinds)
    lengthy = tuple(
        (name, bool(number_format))
        for name, _, kind, number_format in kinds
        if number_format or kind in {str, bytes}
    )
    return plain, lengthy


def encoded_size(message: object) -> int:
    """Return the `wire_size` of a message without encoding it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Greeting:
    ...     name: str
    ...     ages: tuple[int, ...]
    >>> encoded_size(Greeting("Zoë", (3, 4))) == wire_size(encode(Greeting("Zoë", (3, 4)))) == 28
    True
    """
    message_class: Any = type(message)
    size, lengthy = _sizes(message_class)
    for name, is_numbers in lengthy:
        value = getattr(message, name)
        if is_numbers:
            size += 8 * len(value)
        else:
            size += len(value.encode(errors="replace") if type(value) is str else value)
    return size


def wire_size(fields: Mapping[str, Scalar]) -> int:
    """Return the bytes of names and values: eight for a number, one for a bool.

    Examples
    --------
    >>> wire_size({"age": 36, "key": b"abc"})
    17
    """

    def size(value: Scalar) -> int:
        if isinstance(value, bool):
            return 1
        if isinstance(value, int | float):
            return 8
        return len(value.encode(errors="replace") if isinstance(value, str) else value)

    return sum(len(name) + size(value) for name, value in fields.items())
