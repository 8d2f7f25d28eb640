"""Models and other values of Flower as trees of plain values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from numpy.typing import NDArray

from dubhe_flwr.errors import CheckpointError

__all__ = ["Tree", "join_arrays", "pack", "split_arrays", "unpack"]

Tree = Any
"""None, bool, int, float, str, ndarray, and lists and dictionaries of them."""

_NUMPY = "numpy.ndarray"


def pack(value: object) -> Tree:  # noqa: PLR0911 - one line for each type
    """Return a value as a tree of plain values and arrays.

    Parameters
    ----------
    value : object
        Plain values, bytes, arrays, `Parameters`, an `ArrayRecord`, or lists and dictionaries
        of them.

    Raises
    ------
    CheckpointError
        If something else is in it, which only a pickle could hold.

    Examples
    --------
    >>> pack([1, {"lr": 0.5}])
    [1, {'dict': [['lr', 0.5]]}]
    """
    match value:
        case None | bool() | int() | float() | str() | np.ndarray():
            return value
        case np.generic():
            return {"scalar": np.asarray(value)}
        case bytes():
            return {"bytes": np.frombuffer(value, dtype=np.uint8)}
        case Parameters(tensor_type=kind) if kind == _NUMPY:
            return {"parameters": parameters_to_ndarrays(value)}
        case Parameters():
            return {"tensors": pack(value.tensors), "type": value.tensor_type}
        case ArrayRecord():
            return {"record": [[name, _numpy(name, array)] for name, array in value.items()]}
        case Mapping() if all(isinstance(key, str) for key in value):
            return {"dict": [[key, pack(item)] for key, item in value.items()]}
        case list() | tuple():
            return [pack(item) for item in value]
    raise CheckpointError(
        f"A {type(value).__name__} cannot be kept in a checkpoint; give arrays, numbers, strings, "
        "or lists and dictionaries of them."
    )


def unpack(tree: Tree) -> Any:  # noqa: PLR0911 - one line for each type
    """Return the value that was packed; a tuple comes back as a list."""
    match tree:
        case {"scalar": array}:
            return array[()]
        case {"bytes": array}:
            return array.tobytes()
        case {"parameters": arrays}:
            return ndarrays_to_parameters(arrays)
        case {"tensors": tensors, "type": kind}:
            return Parameters(unpack(tensors), kind)
        case {"record": named}:
            return ArrayRecord({name: Array(array) for name, array in named})
        case {"dict": items}:
            return {key: unpack(item) for key, item in items}
        case dict():
            raise CheckpointError("A packed value is of an unknown kind; it was changed.")
        case list():
            return [unpack(item) for item in tree]
    return tree


def split_arrays(tree: Tree, arrays: dict[str, NDArray[Any]]) -> Tree:
    """Return the tree with a number in place of each array, and collect the arrays.

    Examples
    --------
    >>> arrays = {}
    >>> split_arrays({"m": [np.zeros(2), 3]}, arrays)
    {'m': [{'array': '0'}, 3]}
    >>> list(arrays)
    ['0']

    Raises
    ------
    CheckpointError
        If an array holds objects, which only a pickle could.
    """
    if isinstance(tree, np.ndarray):
        if tree.dtype.hasobject:
            raise CheckpointError("An array of objects cannot be kept; give one of numbers.")
        name = str(len(arrays))
        arrays[name] = tree
        return {"array": name}
    if isinstance(tree, dict):
        return {key: split_arrays(item, arrays) for key, item in tree.items()}
    if isinstance(tree, list):
        return [split_arrays(item, arrays) for item in tree]
    return tree


def join_arrays(tree: Tree, arrays: Mapping[str, NDArray[Any]]) -> Tree:
    """Return the tree with the arrays in their places again."""
    if isinstance(tree, dict):
        if tree.keys() == {"array"}:
            return arrays[tree["array"]]
        return {key: join_arrays(item, arrays) for key, item in tree.items()}
    if isinstance(tree, list):
        return [join_arrays(item, arrays) for item in tree]
    return tree


def _numpy(name: str, array: Array) -> NDArray[Any]:
    if array.stype != _NUMPY:
        raise CheckpointError(
            f"Array {name!r} is serialised as {array.stype!r}; only {_NUMPY!r} can be kept."
        )
    return array.numpy()
