"""How a selector's state becomes a JSON-compatible dictionary and back.

What the state classes declare decides: every field is written under its own name, and what is read
must have exactly those names. Bytes and packed bits travel as base64.
"""

import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import CheckpointError, DubheError
from dubhe_flwr.he import PublicKey
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.parameters import EpochParameters, epoch_parameters
from dubhe_flwr.protocol.vectors import Vectors

__all__ = ["check_keys", "from_json", "to_json"]

T = TypeVar("T")


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def check_keys(data: object, wanted: Sequence[str], where: str) -> dict[str, Any]:
    """Return a dictionary that has exactly these keys.

    Raises
    ------
    CheckpointError
        If it is none, or a key is missing or unknown; the message names it.

    Examples
    --------
    >>> check_keys({"seed": 7, "extra": 1}, ["seed"], "selector")
    Traceback (most recent call last):
    dubhe_flwr.errors.CheckpointError: selector: key 'extra' is unknown; load a state that this \
version of dubhe-flwr wrote.
    """
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: {type(data).__name__} is no dictionary of a saved state.")
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


def to_json(value: Any) -> Any:  # noqa: C901, PLR0911 - one line for each type
    """Return a value of a state class as JSON has it.

    Examples
    --------
    >>> to_json(JoinRequest((1, 2), (0.7,), 4, 512, 100, 3, 50, 20, -1))["reference_set"]
    [1, 2]
    >>> to_json({7: b"abc"})
    {'7': 'YWJj'}
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return b64encode(value).decode()
        case EpochParameters():
            return to_json(value.announced)
        case Vectors():
            return {"size": value.size, "bytes": to_json(value.to_bytes())}
        case PublicKey():
            return to_json(value.to_bytes())
        case np.ndarray() if value.dtype == np.bool_:
            return {"shape": list(value.shape), "bits": to_json(np.packbits(value).tobytes())}
        case np.ndarray():
            return value.tolist()
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case frozenset():
            return sorted(value)
        case tuple() | list():
            return [to_json(item) for item in value]
    return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}


def from_json(kind: type[T], data: object, where: str) -> T:
    """Return the value of a state class that was written by `to_json`.

    Parameters
    ----------
    kind : type
        The class, or the type of one of its fields.
    data : object
        As read.
    where : str
        What the value is part of, for the message of an error.

    Raises
    ------
    CheckpointError
        If a key is missing or unknown, or a value is not what the class takes.

    Examples
    --------
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
        return None if data is None else from_json(arguments[0], data, where)
    if origin in {tuple, frozenset}:
        return origin(from_json(arguments[0], item, where) for item in _sequence(data))
    if not isinstance(data, dict):
        raise TypeError
    return {  # a mapping by number
        int(key): from_json(arguments[1], item, f"{where}.{key}") for key, item in data.items()
    }


def _numbers(data: Any, where: str) -> NDArray[np.int64]:
    return np.array([from_json(int, item, where) for item in _sequence(data)], dtype=np.int64)


def _bits(data: Any, where: str) -> NDArray[np.bool_]:
    values = check_keys(data, ["shape", "bits"], where)
    shape = [from_json(int, size, where) for size in _sequence(values["shape"])]
    packed = np.frombuffer(from_json(bytes, values["bits"], where), dtype=np.uint8)
    count = int(np.prod(shape))
    if min(shape, default=0) < 0 or len(packed) != -(-count // 8):
        raise ValueError
    return np.unpackbits(packed, count=count).reshape(shape).astype(bool)


def _sequence(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError
    return data


def _vectors(data: Any, where: str) -> Vectors:
    values = check_keys(data, ["size", "bytes"], where)
    size = from_json(int, values["size"], where)
    return Vectors(size, from_json(bytes, values["bytes"], where))


def _bytes(data: Any, _where: str) -> bytes:
    return b64decode(data, validate=True)


# Hints of arrays are compared as a whole: what they are made of differs between versions of NumPy.
_ATOMS: dict[Any, Callable[[Any, str], object]] = {
    NDArray[np.bool_]: _bits,
    NDArray[np.int64]: _numbers,
    bytes: _bytes,
    float: lambda data, where: data if type(data) is float else float(from_json(int, data, where)),
    Vectors: _vectors,
    PublicKey: lambda data, where: PublicKey(int.from_bytes(_bytes(data, where), "big")),
    EpochParameters: lambda data, where: epoch_parameters(from_json(JoinRequest, data, where)),
}
