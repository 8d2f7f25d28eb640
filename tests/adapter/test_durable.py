"""Test of replacing a file such that it outlasts a crash."""

import os
from pathlib import Path
from stat import S_ISDIR

import pytest

from dubhe_flwr.adapter.durable import replacing


def test_the_content_is_flushed_before_the_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is flushed, takes the place of the old one, and then its folder is flushed."""
    path, real, seen = tmp_path / "file", os.fsync, []

    def fsync(descriptor: int) -> None:
        seen.append((S_ISDIR(os.fstat(descriptor).st_mode), path.read_bytes()))
        real(descriptor)

    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(path) as file:
        file.write(b"n")
        file.write(b"ew")
    assert seen == [(False, b"old"), (True, b"new")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
