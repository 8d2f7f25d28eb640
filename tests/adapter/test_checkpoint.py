"""Tests of the directory that keeps the last completed round."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.errors import CheckpointError

CONTENT = {"state": {"version": 1}, "model": [np.arange(3), {"b": np.zeros((2, 0))}]}


def names(path: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(entry.name for entry in path.iterdir())


def test_only_the_last_round_is_kept(tmp_path: Path) -> None:
    """What was saved is there with its arrays; what was there before is gone."""
    directory = CheckpointDirectory(tmp_path / "new" / "folder")
    assert directory.latest() is None
    for server_round in (0, 1, 10):
        directory.save(server_round, {**CONTENT, "round": server_round})
        assert names(directory.path) == [f"round-{server_round:06d}"]
    latest = CheckpointDirectory(str(directory.path)).latest()
    assert latest is not None
    assert not latest.left
    assert latest.content["round"] == 10
    assert latest.content["state"] == {"version": 1}
    np.testing.assert_array_equal(latest.content["model"][0], np.arange(3))
    assert latest.content["model"][1]["b"].shape == (2, 0)


def test_rounds_are_compared_as_numbers(tmp_path: Path) -> None:
    """Where an earlier one could not be removed, the later one counts."""
    directory = CheckpointDirectory(tmp_path)
    directory.save(2, {"round": 2})
    (tmp_path / "round-000002").rename(tmp_path / "round-2000000")
    directory.save(3, {"round": 3})
    assert (latest := directory.latest()) is not None
    assert latest.content["round"] == 3
    (tmp_path / "round-x").mkdir()
    assert directory.latest() == latest


def test_a_mark_belongs_to_its_checkpoint(tmp_path: Path) -> None:
    """It says that something was sent since, until a round is completed again."""
    directory = CheckpointDirectory(tmp_path)
    directory.mark_left()
    assert names(tmp_path) == []
    directory.save(1, CONTENT)
    for _ in range(2):
        directory.mark_left()
    assert (latest := directory.latest()) is not None
    assert latest.left
    directory.save(1, {"round": "again"})
    assert (latest := directory.latest()) is not None
    assert latest.left
    assert "round" not in latest.content
    directory.save(2, CONTENT)
    assert (latest := directory.latest()) is not None
    assert not latest.left


@pytest.mark.parametrize("name", ["fsync", "rename"])
def test_what_was_not_completed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A write that broke off leaves the last checkpoint, and the next one takes its place."""
    directory = CheckpointDirectory(tmp_path)
    directory.save(1, {"round": 1})

    def fail(*_arguments: Any) -> Any:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os if name == "fsync" else Path, name, fail)
        with pytest.raises(OSError, match="no space"):
            directory.save(2, {"round": 2})
    assert (latest := directory.latest()) is not None
    assert latest.content["round"] == 1
    directory.save(2, {"round": 2})
    assert names(tmp_path) == ["round-000002"]


@pytest.mark.parametrize("name", ["state.json", "arrays.npz"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "foreign"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str, damage: str) -> None:
    """Its files are read with care, and the error says which folder it is."""
    directory = CheckpointDirectory(tmp_path)
    directory.save(7, CONTENT)
    path = tmp_path / "round-000007" / name
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "cut": data[:-30], "foreign": b"\x80\x04."}[damage])
    with pytest.raises(CheckpointError, match="round-000007 cannot be read"):
        directory.latest()


def test_nothing_is_pickled(tmp_path: Path) -> None:
    """An array of objects is refused when it is written, not only when it is read."""
    directory = CheckpointDirectory(tmp_path)
    with pytest.raises(CheckpointError, match="array of objects"):
        directory.save(1, {"model": np.array([{}])})
    assert directory.latest() is None
