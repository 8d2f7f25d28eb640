"""Models, other values of Flower and random generators as trees of plain values and arrays."""

import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters

from dubhe_flwr.errors import CheckpointError

Tree = Any
"""None, bool, int, float, str, ndarray, and lists and dictionaries of them."""


def pack(value: object) -> Tree:  # noqa: PLR0911 - one line for each type
    """Return a value as a tree of plain values and arrays, or refuse what only a pickle could hold.

    What has a declared type is for `dubhe_flwr.protocol.saved` instead.

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


def generator_states() -> dict[str, Any]:
    """Return the states of Python's, numpy's and, where it is loaded, torch's generator (CPU).

    Dubhe's own choices need none: they are computed from the seed and the round. Flower's
    differential privacy draws its noise from numpy's, and an app may draw from any. They fix
    numbers of a simulation or a training, never a key.
    """
    version, internal, gauss = random.getstate()
    states: dict[str, Any] = {
        "python": {"version": version, "internal": np.array(internal), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the one that Flower uses
    }
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state().numpy()
    return states


def restore_generators(states: dict[str, Any]) -> None:
    """Put the generators back into these states."""
    try:
        python = states["python"]
        random.setstate((python["version"], tuple(python["internal"].tolist()), python["gauss"]))
        np.random.set_state(states["numpy"])  # noqa: NPY002 - the one that Flower uses
        if "torch" in states:
            import torch  # noqa: PLC0415 - an extra, loaded where the app had it

            torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
    except Exception as error:  # noqa: BLE001 - the states may be damaged in any way
        raise CheckpointError(
            f"The saved random generators cannot be restored ({type(error).__name__}); restore the "
            "checkpoint's files or name an empty checkpoint_dir to begin anew."
        ) from None
