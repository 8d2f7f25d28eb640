"""Tests of models, other values and random generators as trees of plain values and arrays."""

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters, ndarrays_to_parameters

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.packing import generator_states, pack, restore_generators, unpack
from dubhe_flwr.errors import CheckpointError

OTHERS: list[Any] = [None, 5, "x", [], {}, [[1]], {"bytes": 3}, {"set": []}, np.zeros(2)]
VALUES = [
    None,
    [1, 2.5, "x", True, None],
    {"array": 5, "dict": {"parameters": [], "bytes": 1}, "b/c": b"\x00\xff"},
    Parameters([b"{}", b""], "json"),
    ndarrays_to_parameters([np.arange(3), np.float32(2) * np.ones((2, 2), np.float32)]),
    ArrayRecord({"layer.1": Array(np.zeros((2, 0), np.int8)), "file": Array(np.ones(1))}),
    ArrayRecord({"a": Array("float32", (1,), "torch", b"1234")}),
    ArrayRecord(),
]


def travelled(value: Any, path: Any) -> Any:
    """Return a value after its way through the files of a checkpoint."""
    directory = CheckpointDirectory(path)
    directory.open()
    directory.save(1, {"value": pack(value)})
    checkpoint = directory.open()
    assert checkpoint is not None
    return unpack(checkpoint.content["value"])


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back(value: Any, tmp_path: Any) -> None:
    """Whatever keys a dictionary has, and whatever kind a model is of."""
    assert travelled(value, tmp_path) == value


def test_arrays_come_back_bit_for_bit(tmp_path: Any) -> None:
    """With their types, a number's own included."""
    array, number = np.array([0.1, np.nan, -0.0], dtype=np.float32), np.float32(0.1)
    there = travelled({"m": [array], "n": number}, tmp_path)
    assert there["m"][0].dtype == array.dtype
    assert there["m"][0].tobytes() == array.tobytes()
    assert type(there["n"]) is np.float32
    assert there["n"] == number


def test_what_only_a_pickle_holds_is_refused() -> None:
    """The error names the type."""
    for value in (object(), [{1: 2}], lambda: 1, np.array([{}])):
        with pytest.raises(CheckpointError, match="cannot be kept"):
            pack(value)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of a tree."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [path, *(place for key in keys for place in places(tree[key], (*path, key)))]


def damaged(tree: Any) -> Iterator[Any]:
    """Yield copies of a tree, each with one of its parts replaced."""
    for path in places([tree])[1:]:
        for other in OTHERS:
            whole = copy.deepcopy([tree])
            part: Any = whole
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = other
            yield whole[0]


def test_only_typed_errors_come_out_of_a_changed_tree() -> None:
    """Wherever something else stands, and however deep it is."""
    wrong: list[Any] = [{"set": []}, {}, {"bytes": 5}, {"parameters": []}, [{"dict": 3}]]
    for tree in wrong:
        with pytest.raises(CheckpointError, match=r"was changed .* empty checkpoint_dir"):
            unpack(tree)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for tree in [deep, *(each for value in VALUES for each in damaged(pack(value)))]:
        with suppress(CheckpointError):
            unpack(tree)


def numbers() -> list[float]:
    """Return numbers of each generator; an odd number of normal ones leaves half a pair."""
    torch = pytest.importorskip("torch")
    return [
        random.gauss(0, 1),
        random.random(),
        float(np.random.normal()),  # noqa: NPY002 - the generator that Flower uses
        float(np.random.random()),  # noqa: NPY002 - the generator that Flower uses
        float(torch.rand(())),
    ]


def test_all_three_generators_go_on_where_they_were() -> None:
    """Python's, numpy's and torch's, with what they hold back for the next call."""
    numbers()
    states = generator_states()
    first = numbers()
    assert numbers() != first
    restore_generators(states)
    assert numbers() == first


@pytest.mark.parametrize(
    ("name", "damage"),
    [("python", None), ("python", {}), ("numpy", {"state": 1}), ("torch", np.zeros(3))],
)
def test_damaged_states_are_refused(name: str, damage: Any) -> None:
    """With a typed error that says what to do, whatever is wrong with them."""
    pytest.importorskip("torch")
    with pytest.raises(CheckpointError, match=r"cannot be restored .* empty checkpoint_dir"):
        restore_generators({**generator_states(), name: damage})
