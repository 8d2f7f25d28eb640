"""How a selector's state becomes a JSON-compatible dictionary and back.

What the state classes declare decides: every field is written under its own name, and what is read
must have exactly those names. Bytes travel as base64.
"""

import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from dubhe_flwr.errors import CheckpointError, DubheError
from dubhe_flwr.he.public_key import PublicKey

T = TypeVar("T")


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def check_keys(data: object, wanted: Sequence[str], where: str) -> dict[str, Any]:
    """Return a dictionary with exactly these keys; of others a `CheckpointError` names the key."""
    if not isinstance(data, dict):
        raise CheckpointError(
            f"{where}: {type(data).__name__} is not a dictionary of a saved state."
        )
    for problem, names in (
        ("is missing", [name for name in wanted if name not in data]),
        ("is unknown", [name for name in data if name not in wanted]),
    ):
        if names:
            raise CheckpointError(
                f"{where}: key {names[0]!r} {problem}; load a state that this version of "
                "dubhe-flwr wrote."
            )
    return data


def to_json(value: Any) -> Any:  # noqa: PLR0911 - one line for each type
    """Return a value of a state class as JSON has it.

    >>> to_json({7: b"abc", 8: (1, 2)})
    {'7': 'YWJj', '8': [1, 2]}
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return b64encode(value).decode()
        case PublicKey():
            return to_json(value.to_bytes())
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case frozenset():
            return sorted(value)
        case tuple() | list():
            return [to_json(item) for item in value]
    return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}


def from_json(kind: type[T], data: object, where: str) -> T:
    """Return the value of a state class, or of the type of a field, that `to_json` wrote.

    If a key is missing or unknown, or a value is not what the class takes, it is a
    `CheckpointError`, which says `where`.

    >>> from_json(frozenset[int], [3, 4], "asked")
    frozenset({3, 4})
    >>> from_json(int, "3", "seed")
    Traceback (most recent call last):
    dubhe_flwr.errors.CheckpointError: seed: 'str' is not what belongs here; the state was changed \
or damaged.
    """
    try:
        return cast("T", _read(kind, data, where))
    except CheckpointError:
        raise
    except (DubheError, TypeError, ValueError, KeyError, OverflowError):
        raise CheckpointError(
            f"{where}: {type(data).__name__!r} is not what belongs here; the state was changed or "
            "damaged."
        ) from None


def _read(kind: Any, data: Any, where: str) -> object:
    if kind in _ATOMS:
        return _ATOMS[kind](data, where)
    if is_dataclass(kind):
        kinds = _kinds(cast("Any", kind))
        wanted = [field.name for field in fields(kind)]
        values = check_keys(data, wanted, where)
        read = {name: from_json(kinds[name], values[name], f"{where}.{name}") for name in wanted}
        return cast("Any", kind)(**read)
    if get_origin(kind) is not None:
        return _collection(kind, data, where)
    if type(data) is not kind:
        raise TypeError
    return data


def _collection(kind: Any, data: Any, where: str) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        if data is None and types.NoneType in arguments:
            return None
        # Of two classes, one is written as a dictionary and the other one is not.
        is_tree = isinstance(data, dict)
        kinds = [kind for kind in arguments if kind is not types.NoneType]
        trees = [kind for kind in kinds if is_dataclass(kind) and kind not in _ATOMS]
        chosen: Any = trees[0] if is_tree and trees else kinds[0]
        return from_json(chosen, data, where)
    if not isinstance(data, list if origin in {tuple, frozenset} else dict):
        raise TypeError
    if isinstance(data, list):
        return origin(from_json(arguments[0], item, where) for item in data)
    of_key, of_item = arguments  # JSON has keys of text only
    return {of_key(key): from_json(of_item, item, f"{where}.{key}") for key, item in data.items()}


def _bytes(data: Any, _where: str) -> bytes:
    return b64decode(data, validate=True)


_ATOMS: dict[Any, Callable[[Any, str], object]] = {
    bytes: _bytes,
    float: lambda data, where: data if type(data) is float else float(from_json(int, data, where)),
    PublicKey: lambda data, where: PublicKey(int.from_bytes(_bytes(data, where), "big")),
}
