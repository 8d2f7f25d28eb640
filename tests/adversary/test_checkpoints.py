"""Somebody spoils, forges or reads the files of a server, or starts a second one over them."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.errors import CheckpointError

CONTENT = {"state": {"version": 1}, "model": [np.arange(3), {"b": np.zeros((2, 0))}]}
UNREADABLE = "round-000007 cannot be read"


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDirectory:
    """Return a directory that belongs to this process, with the checkpoint of a round."""
    directory = CheckpointDirectory(tmp_path / "kept")
    directory.open()
    before = os.umask(0)
    try:
        directory.save(7, CONTENT)
        directory.mark_left()
    finally:
        os.umask(before)
    return directory


@pytest.mark.parametrize("name", ["state.json", "arrays.npz", "SHA256SUMS"])
def test_a_damaged_checkpoint_is_named(directory: CheckpointDirectory, name: str) -> None:
    """Whichever bit of whichever file is another, or if a file is missing or too long."""
    path = directory.path / "round-000007" / name
    data = path.read_bytes()
    rng = np.random.default_rng(5)
    damages: list[bytes | None] = [None, b"", data[:-30], data + b" ", b"\x80\x04.", b"[" * 10**6]
    for place in rng.integers(len(data), size=100):
        changed = bytes([data[place] ^ 1 << int(rng.integers(8))])
        damages.append(data[:place] + changed + data[place + 1 :])
    for damage in damages:
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(CheckpointError, match=UNREADABLE):
            directory.open()
        path.write_bytes(data)
    checkpoint = directory.open()
    assert checkpoint is not None
    assert checkpoint.content["state"] == {"version": 1}


def test_a_forged_checkpoint_is_refused_too(directory: CheckpointDirectory) -> None:
    """Sums that fit do not make depth without end, or arrays that are missing, readable."""
    folder = directory.path / "round-000007"
    command = ["sha256sum", "state.json", "arrays.npz"]
    for state in (b"[" * 10**6, b'{"array of arrays.npz": "9"}', b"\xff", b"{"):
        (folder / "state.json").write_bytes(state)
        sums = subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603
        (folder / "SHA256SUMS").write_bytes(sums.stdout)
        with pytest.raises(CheckpointError, match=UNREADABLE):
            directory.open()


def test_nobody_else_can_read_it(directory: CheckpointDirectory) -> None:
    """Folders are 0700 and files 0600, whatever the usual rights of new files are."""
    for path in [directory.path, *directory.path.rglob("*")]:
        rights = stat.S_IMODE(path.stat().st_mode)
        assert rights == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    """A second one is refused in a sentence, until the first one ends, however it ends."""
    hold = (
        "import sys; from dubhe_flwr.adapter.checkpoint import CheckpointDirectory as D;"
        "D(sys.argv[1]).open(); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: S603 - our own code
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(CheckpointError, match=r"Another process uses .*; end it, or name"):
            CheckpointDirectory(tmp_path).open()
        other.kill()
    for _ in range(2):
        assert CheckpointDirectory(tmp_path).open() is None
