"""Models and other values of Flower as trees of plain values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters

from dubhe_flwr.errors import CheckpointError

__all__ = ["Tree", "pack", "unpack"]

Tree = Any
"""None, bool, int, float, str, ndarray, and lists and dictionaries of them."""


def pack(value: object) -> Tree:  # noqa: PLR0911 - one line for each type
    """Return a value as a tree of plain values and arrays, or refuse what only a pickle could hold.

    What has a declared type is for `dubhe_flwr.protocol.saved` instead.

    Examples
    --------
    >>> pack([1, {"lr": 0.5}])
    [1, {'dict': [['lr', 0.5]]}]
    """
    match value:
        case np.ndarray() if value.dtype.hasobject:
            raise CheckpointError("An array of objects cannot be kept; give one of numbers.")
        case None | bool() | int() | float() | str() | np.ndarray():
            return value
        case np.generic():
            return {"scalar": np.asarray(value)}
        case bytes():
            return {"bytes": np.frombuffer(value, dtype=np.uint8)}
        case Parameters():
            return {"parameters": [value.tensor_type, pack(value.tensors)]}
        case ArrayRecord():
            return {"record": [[name, pack(_fields(array))] for name, array in value.items()]}
        case Mapping() if all(isinstance(key, str) for key in value):
            return {"dict": [[key, pack(item)] for key, item in value.items()]}
        case list() | tuple():
            return [pack(item) for item in value]
    raise CheckpointError(
        f"A {type(value).__name__} cannot be kept in a checkpoint; give arrays, numbers, strings, "
        "or lists and dictionaries of them."
    )


def unpack(tree: Tree) -> Any:
    """Return the value that was packed, a tuple as a list; refuse what was changed."""
    try:
        return _unpack(tree)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"A packed value was changed ({type(error).__name__}); restore the checkpoint, or name "
            "an empty checkpoint_dir to begin anew."
        ) from None


def _unpack(tree: Tree) -> Any:  # noqa: PLR0911 - one line for each type
    match tree:
        case {"scalar": array}:
            return array[()]
        case {"bytes": array}:
            return array.tobytes()
        case {"parameters": [kind, tensors]}:
            return Parameters(_unpack(tensors), kind)
        case {"record": named}:
            return ArrayRecord({name: _array(**_unpack(fields)) for name, fields in named})
        case {"dict": items}:
            return {key: _unpack(item) for key, item in items}
        case dict():
            raise ValueError
        case list():
            return [_unpack(item) for item in tree]
    return tree


def _fields(array: Array) -> dict[str, Any]:
    return {name: getattr(array, name) for name in ("dtype", "shape", "stype", "data")}


def _array(shape: list[int], **others: Any) -> Array:
    return Array(shape=tuple(shape), **others)
