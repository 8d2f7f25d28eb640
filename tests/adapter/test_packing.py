"""Tests of models and other values as trees of plain values and arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters, ndarrays_to_parameters

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.packing import pack, unpack
from dubhe_flwr.errors import CheckpointError


def travelled(value: Any, path: Path) -> Any:
    """Return a value after its way through a checkpoint."""
    directory = CheckpointDirectory(path)
    directory.save(1, {"value": pack(value)})
    checkpoint = directory.open()
    assert checkpoint is not None
    return unpack(checkpoint.content["value"])


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "x", True, None],
        {"array": 5, "dict": {"parameters": [], "bytes": 1}, "b/c": b"\x00\xff"},
        Parameters([b"{}", b""], "json"),
        ndarrays_to_parameters([np.arange(3), np.float32(2) * np.ones((2, 2), np.float32)]),
        ArrayRecord({"layer.1": Array(np.zeros((2, 0), np.int8)), "file": Array(np.ones(1))}),
        ArrayRecord({"a": Array("float32", (1,), "torch", b"1234")}),
        ArrayRecord(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back(tmp_path: Path, value: Any) -> None:
    """Whatever keys a dictionary has, and whatever kind a model is of."""
    assert travelled(value, tmp_path) == value


def test_arrays_come_back_bit_for_bit(tmp_path: Path) -> None:
    """With their types, a number's own included."""
    array, number = np.array([0.1, np.nan, -0.0], dtype=np.float32), np.float32(0.1)
    there = travelled({"m": [array], "n": number}, tmp_path)
    assert there["m"][0].dtype == array.dtype
    assert there["m"][0].tobytes() == array.tobytes()
    assert type(there["n"]) is np.float32
    assert there["n"] == number


def test_what_only_a_pickle_holds_is_refused() -> None:
    """The error names the type."""
    for value in (object(), [{1: 2}], lambda: 1):
        with pytest.raises(CheckpointError, match="cannot be kept"):
            pack(value)
    with pytest.raises(CheckpointError, match="array of objects"):
        pack({"model": [np.array([{}])]})


@pytest.mark.parametrize(
    "tree",
    [
        {"set": []},
        {},
        {"bytes": 5},
        {"scalar": 5},
        {"parameters": []},
        {"record": [["a", {"dict": [["dtype", "int8"]]}]]},
        {"dict": [["a"]]},
        [{"dict": 3}],
    ],
    ids=str,
)
def test_what_was_changed_is_refused(tree: Any) -> None:
    """With a typed error that says what to do, whatever is wrong with it."""
    with pytest.raises(CheckpointError, match=r"was changed .* empty checkpoint_dir"):
        unpack(tree)
