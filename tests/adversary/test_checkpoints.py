"""Someone damages, forges or reads a server's files, or starts a second server on them."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apis import Api, in_both_apis
from flwr.app import Message

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.messages import STAGES, stage_of
from dubhe_flwr.errors import CheckpointError

CONTENT = {"state": {"version": 1}, "model": [np.arange(3), {"b": np.zeros((2, 0))}]}
UNREADABLE = "checkpoint.npz cannot be read .*; restore it, or name an empty checkpoint_dir"


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDirectory:
    """Return a directory that belongs to this process, with the checkpoint of a round."""
    directory = CheckpointDirectory(str(tmp_path / "new" / "folder"))
    directory.open()
    before = os.umask(0)
    try:
        directory.save(CONTENT)
    finally:
        os.umask(before)
    return directory


def test_a_damaged_checkpoint_is_named(directory: CheckpointDirectory) -> None:
    """If a bit is flipped or part is missing, loading fails or returns the same content."""
    data = directory.file.read_bytes()
    damages = [b"", data[:-30], data[30:], b"\x80\x04.", b"[" * 10**6]
    for place in range(0, len(data), 3):
        changed = bytes([data[place] ^ 1 << place % 8])
        damages.append(data[:place] + changed + data[place + 1 :])
    refused = 0
    for damage in damages:
        directory.file.write_bytes(damage)
        try:
            np.testing.assert_equal(directory.open(), CONTENT)  # dates, rights and the like
        except CheckpointError:
            refused += 1
    assert refused > len(damages) // 2
    directory.file.write_bytes(data)
    assert directory.open()["state"] == {"version": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 10**6,
        b"\xff",
        b"{",
        b'{"dubhe": true}',
        b'{"dubhe": true, "array": "9"}',
        b'{"dubhe": true, "parameters": [1]}',
        b'{"dubhe": true, "record": [["a", "float32", 1, "torch", "b"]]}',
        np.array([{}], dtype=object),
    ],
    ids=lambda content: str(content[:20]),
)
def test_a_forged_checkpoint_is_refused_too(directory: CheckpointDirectory, content: Any) -> None:
    """An intact file with endless nesting, missing arrays or a pickle is refused as well."""
    is_text = isinstance(content, bytes)
    np.savez(directory.file, json=np.frombuffer(content, np.uint8) if is_text else content)
    with pytest.raises(CheckpointError, match=UNREADABLE):
        directory.open()


def test_nobody_else_can_read_it(directory: CheckpointDirectory) -> None:
    """Folders are 0700 and files 0600, whatever the umask."""
    for path in [directory.path, *directory.path.rglob("*")]:
        rights = stat.S_IMODE(path.stat().st_mode)
        assert rights == (0o700 if path.is_dir() else 0o600), path


@in_both_apis
def test_it_has_nothing_of_an_epoch(api: Api, tmp_path: Path) -> None:
    """A seed and a number: no key, ciphertext or node. Messages of the protocol have one record."""
    grid, records = api.grid(), set[str]()
    answer = grid._answer

    def watched(message: Message) -> Message:
        reply: Message = answer(message)
        if stage_of(message) in STAGES:
            records.update(message.content, reply.content)
        return reply

    grid._answer = watched
    api.run(api.dubhe(checkpoint_dir=tmp_path), grid)
    state = CheckpointDirectory(tmp_path).open()["state"]
    assert state.keys() == {"version", "round", "selector", "wrapped"}
    assert state["selector"].keys() == {"seed", "sequence"}
    assert records == {"dubhe"}


def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    """A second process is refused with one sentence until the first one ends, however it ends."""
    hold = (
        "import sys; from dubhe_flwr.adapter.checkpoint import CheckpointDirectory as D;"
        "D(sys.argv[1]).open(); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: S603 - our own code
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(CheckpointError, match=r"Another process is using .*; stop it, or"):
            CheckpointDirectory(tmp_path).open()
        other.kill()
    for _ in range(2):
        assert CheckpointDirectory(tmp_path).open() is None
