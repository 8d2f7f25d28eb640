"""Tests of the directory that keeps the last completed round."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters, ndarrays_to_parameters

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.errors import CheckpointError

VALUES: dict[str, Any] = {
    "several": [None, 1, 2.5, "x", True, b"\x00\xff"],
    "dict": {"array": 5, "dict": {"parameters": [], "bytes": 1}, "b/c": 3},
    "parameters": [Parameters([b"{}", b""], "json"), ndarrays_to_parameters([np.arange(3)])],
    "record": ArrayRecord({"layer.1": Array(np.zeros((2, 0), np.int8)), "file": Array(np.ones(1))}),
    "of torch": ArrayRecord({"a": Array("float32", (1,), "torch", b"1234")}),
    "empty": ArrayRecord(),
}


def opened(path: Path) -> CheckpointDirectory:
    """Return a directory that belongs to this process."""
    directory = CheckpointDirectory(path)
    directory.open()
    return directory


def travelled(value: Any, path: Path) -> Any:
    """Save a value and return what is loaded."""
    opened(path).save([value])
    return CheckpointDirectory(path).open()[0]


def test_the_users_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run config passes on a path as it is written there, since no shell expands it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert CheckpointDirectory("~/run-1").file == tmp_path / "run-1" / "checkpoint.npz"


def test_values_come_back(tmp_path: Path) -> None:
    """Models and dictionaries are loaded bit for bit as saved; numpy's numbers become Python's."""
    array = np.array([0.1, np.nan, -0.0], dtype=np.float32)
    back = travelled({"m": [array, np.zeros((2, 0))], "n": np.float32(0.5), **VALUES}, tmp_path)
    assert back["m"][0].dtype == array.dtype
    assert back["m"][0].tobytes() == array.tobytes()
    assert back["m"][1].shape == (2, 0)
    assert type(back["n"]) is float
    assert {name: back[name] for name in VALUES} == VALUES


@pytest.mark.parametrize(
    "value", [object(), [{1: 2}], {"dubhe": 3}, lambda: 1, np.array([{}]), {1, 2}]
)
def test_values_that_need_a_pickle_are_refused(value: object, tmp_path: Path) -> None:
    """The error names the type or key, and the last checkpoint stays."""
    directory = opened(tmp_path)
    directory.save("before")
    refused = r"(type (object|function|ndarray|set)|key (1|'dubhe')); "
    with pytest.raises(CheckpointError, match=refused):
        directory.save({"state": value})
    assert directory.open() == "before"


def test_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    """An unwritable folder is refused before the first round, when nothing is lost yet."""
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", Path("/proc/dubhe")):
        with pytest.raises(CheckpointError, match=r"cannot be used \(.*\); set checkpoint_dir to"):
            CheckpointDirectory(path).open()


def test_without_locks_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is written on Windows and network disks that have no locks."""
    real = os.open

    def no_folder(path: Any, *arguments: Any, **named: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_folder)
        patch.setattr("dubhe_flwr.adapter.durable.fcntl", None)
        assert travelled(5, tmp_path / "windows") == 5
    no_locks = OSError(95, "Operation not supported")
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=no_locks))
    assert travelled(5, tmp_path / "network") == 5
