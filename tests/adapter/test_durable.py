"""Tests of replacing a file such that it outlasts a crash."""

import os
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from dubhe_flwr.adapter.durable import replacing


def replace_with(path: Path, content: bytes) -> None:
    """Replace a file, in two writes."""
    with replacing(path) as file:
        file.write(content[:1])
        file.write(content[1:])


def test_the_content_is_flushed_before_the_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is flushed, takes the place of the old one, and then its folder is flushed."""
    path, real, seen = tmp_path / "file", os.fsync, []

    def fsync(descriptor: int) -> None:
        seen.append((S_ISDIR(os.fstat(descriptor).st_mode), path.read_bytes()))
        real(descriptor)

    replace_with(path, b"old")
    monkeypatch.setattr(os, "fsync", fsync)
    replace_with(path, b"new")
    assert seen == [(False, b"old"), (True, b"new")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_an_interrupted_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The next write succeeds."""
    path = tmp_path / "file"
    replace_with(path, b"old")

    def fail(*_arguments: Any) -> Any:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os if name == "fsync" else Path, name, fail)
        with pytest.raises(OSError, match="no space"):
            replace_with(path, b"new")
    assert path.read_bytes() == b"old"
    replace_with(path, b"new")
    assert path.read_bytes() == b"new"
