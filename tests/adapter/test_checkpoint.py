"""Tests of the directory that keeps the last completed round."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.errors import CheckpointError

CONTENT = {"state": {"version": 1}, "model": [np.arange(3), {"b": np.zeros((2, 0))}]}


def names(path: Path) -> list[str]:
    """Return what lies in a folder, the lock apart."""
    return sorted(entry.name for entry in path.iterdir() if entry.name != ".lock")


def test_only_the_last_round_is_kept(tmp_path: Path) -> None:
    """What was saved is there with its arrays; what was there before is gone."""
    directory = CheckpointDirectory(tmp_path / "new" / "folder")
    assert directory.open() is None
    for server_round in (0, 1, 10):
        directory.save(server_round, {**CONTENT, "round": server_round})
        assert names(directory.path) == [f"round-{server_round:06d}"]
    latest = CheckpointDirectory(str(directory.path)).open()
    assert latest is not None
    assert not latest.left
    assert latest.content["round"] == 10
    assert latest.content["state"] == {"version": 1}
    np.testing.assert_array_equal(latest.content["model"][0], np.arange(3))
    assert latest.content["model"][1]["b"].shape == (2, 0)


def test_rounds_are_compared_as_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an earlier one could not be removed, the later one counts."""
    directory = CheckpointDirectory(tmp_path)
    monkeypatch.setattr(shutil, "rmtree", lambda *_arguments, **_options: None)
    for server_round in (999_999, 1_000_000):
        directory.save(server_round, {"round": server_round})
    assert names(tmp_path) == ["round-1000000", "round-999999"]
    assert (latest := directory.open()) is not None
    assert latest.content["round"] == 1_000_000
    (tmp_path / "round-x").mkdir()
    assert directory.open() == latest


def test_a_mark_belongs_to_its_checkpoint(tmp_path: Path) -> None:
    """It says that something was sent since, until a round is completed again."""
    directory = CheckpointDirectory(tmp_path)
    directory.mark_left()
    assert names(tmp_path) == []
    directory.save(1, CONTENT)
    for _ in range(2):
        directory.mark_left()
    assert (latest := directory.open()) is not None
    assert latest.left
    directory.save(1, {"round": "again"})
    assert (latest := directory.open()) is not None
    assert latest.left
    assert "round" not in latest.content
    directory.save(2, CONTENT)
    assert (latest := directory.open()) is not None
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
    assert (latest := directory.open()) is not None
    assert latest.content["round"] == 1
    directory.save(2, {"round": 2})
    assert names(tmp_path) == ["round-000002"]


@pytest.mark.parametrize("name", ["state.json", "arrays.npz", "SHA256SUMS"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "foreign", "one bit"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str, damage: str) -> None:
    """Its files are read with care, and the error says which folder it is."""
    directory = CheckpointDirectory(tmp_path)
    directory.save(7, CONTENT)
    path = tmp_path / "round-000007" / name
    data = path.read_bytes()
    path.unlink()
    changed = {
        "empty": b"",
        "cut": data[:-30],
        "foreign": b"\x80\x04.",
        "one bit": bytes([*data[:20], data[20] ^ 1, *data[21:]]),
    }
    if damage in changed:
        path.write_bytes(changed[damage])
    with pytest.raises(CheckpointError, match="round-000007 cannot be read"):
        directory.open()


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """Folders and files belong to their user alone, whatever the umask is."""
    directory = CheckpointDirectory(tmp_path / "kept")
    before = os.umask(0)
    try:
        directory.open()
        directory.save(1, CONTENT)
        directory.mark_left()
    finally:
        os.umask(before)
    for path in (directory.path, *directory.path.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


HOLDS = """
import sys
from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
CheckpointDirectory(sys.argv[1]).open()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="two runs are not found out there")
def test_a_directory_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    """Another one is refused until the first one ends, even by a kill."""
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(CheckpointError, match=r"Another process uses .*; end it, or name"):
            CheckpointDirectory(tmp_path).open()
        other.kill()
        other.wait()
    for _ in range(2):
        assert CheckpointDirectory(tmp_path).open() is None


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The error says so before the first round."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file/kept cannot be used .* may write to"):
        CheckpointDirectory(tmp_path / "file" / "kept").open()
