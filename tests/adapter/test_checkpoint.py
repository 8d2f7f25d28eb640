"""Tests of the directory that keeps the last completed round."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.adapter.checkpoint import Checkpoint, CheckpointDirectory
from dubhe_flwr.errors import CheckpointError

CONTENT = {"state": {"version": 1}, "model": [np.arange(3), {"b": np.zeros((2, 0))}]}


def opened(path: Path) -> CheckpointDirectory:
    """Return a directory that belongs to this process."""
    directory = CheckpointDirectory(path)
    directory.open()
    return directory


def latest(directory: CheckpointDirectory) -> Checkpoint:
    """Return the last checkpoint, which there is."""
    checkpoint = directory.open()
    assert checkpoint is not None
    return checkpoint


def names(path: Path) -> list[str]:
    """Return what lies in a folder, but for the lock."""
    return sorted(entry.name for entry in path.iterdir() if entry.name != ".lock")


def test_only_the_last_round_is_kept(tmp_path: Path) -> None:
    """What was saved is there with its arrays; what was there before is gone."""
    directory = CheckpointDirectory(tmp_path / "new" / "folder")
    assert directory.open() is None
    for server_round in (0, 1, 10):
        directory.save(server_round, {**CONTENT, "round": server_round})
        assert names(directory.path) == [f"round-{server_round:06d}"]
    checkpoint = latest(CheckpointDirectory(str(directory.path)))
    assert not checkpoint.left
    assert checkpoint.content["round"] == 10
    assert checkpoint.content["state"] == {"version": 1}
    np.testing.assert_array_equal(checkpoint.content["model"][0], np.arange(3))
    assert checkpoint.content["model"][1]["b"].shape == (2, 0)


@pytest.mark.parametrize("value", [{1, 2}, np.array([{}])])
def test_no_checkpoint_holds_a_pickle(tmp_path: Path, value: object) -> None:
    """What is neither JSON nor an array of numbers is refused when it is saved."""
    with pytest.raises(CheckpointError, match=r"no (set|ndarray)\."):
        opened(tmp_path).save(0, {"state": value})


def test_rounds_are_compared_as_numbers(tmp_path: Path) -> None:
    """Where an earlier one could not be removed, the later one counts."""
    directory = opened(tmp_path)
    directory.save(3, {"round": 3})
    shutil.copytree(tmp_path / "round-000003", tmp_path / "round-2")
    (tmp_path / "round-x").mkdir()
    assert latest(directory).path.name == "round-000003"


def test_a_mark_belongs_to_its_checkpoint(tmp_path: Path) -> None:
    """It says that something was sent since, until a round is completed again."""
    directory = opened(tmp_path)
    directory.mark_left()
    assert names(tmp_path) == []
    directory.save(1, CONTENT)
    for _ in range(2):
        directory.mark_left()
    assert latest(directory).left
    directory.save(1, {"round": "again"})
    assert latest(directory).left
    assert "round" not in latest(directory).content
    directory.save(2, CONTENT)
    assert not latest(directory).left


@pytest.mark.parametrize("name", ["fsync", "rename"])
def test_what_was_not_completed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A write that broke off leaves the last checkpoint, and the next one takes its place."""
    directory = opened(tmp_path)
    directory.save(1, {"round": 1})

    def fail(*_arguments: Any) -> Any:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os if name == "fsync" else Path, name, fail)
        with pytest.raises(OSError, match="no space"):
            directory.save(2, {"round": 2})
    assert latest(directory).content["round"] == 1
    directory.save(2, {"round": 2})
    assert names(tmp_path) == ["round-000002"]


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    """Before the first round, where nothing is lost yet."""
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", Path("/proc/dubhe")):
        with pytest.raises(
            CheckpointError, match=r"cannot be used \(.*\); let checkpoint_dir name"
        ):
            CheckpointDirectory(path).open()


def test_where_no_folder_opens_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where a folder cannot be flushed by itself."""
    real = os.open

    def no_folder(path: Any, *arguments: Any, **named: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", no_folder)
    directory = opened(tmp_path)
    directory.save(1, CONTENT)
    directory.mark_left()
    assert latest(directory).left
