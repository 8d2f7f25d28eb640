"""A directory in which a run keeps what it needs to go on: JSON and npz, never a pickle."""

import json
import os
import shutil
from collections.abc import Mapping
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from dubhe_flwr.adapter.packing import Tree
from dubhe_flwr.errors import CheckpointError

try:
    import fcntl
except ImportError:  # on Windows two runs in one folder are not found out
    fcntl = None  # type: ignore[assignment]

_STATE: Final = "state.json"
_ARRAYS: Final = "arrays.npz"
_SUMS: Final = "SHA256SUMS"
_LEFT: Final = "left"
_LOCK: Final = ".lock"
_ARRAY: Final = "array of arrays.npz"

_locked: set[tuple[int, int]] = set()
"""Device and number of the lock files that this process holds, open until it ends."""


class Checkpoint(NamedTuple):
    """What was kept after a round, and whether anything was sent to the nodes since."""

    path: Path
    content: Mapping[str, Tree]
    left: bool


class CheckpointDirectory:
    """Keeps the last completed round, whenever the process is killed.

    A checkpoint is a folder `round-N`. It is written under another name, flushed to the disk and
    renamed, so that it is there as a whole or not at all. Nobody else can read it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self) -> Checkpoint | None:
        """Return the checkpoint of the last completed round, None before the first one.

        From now on the directory belongs to this process. `CheckpointError` if it cannot be written
        to, another process uses it, or its files are damaged.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _lock(self.path / _LOCK)
        except BlockingIOError:
            raise CheckpointError(
                f"Another process uses {self.path}; end it, or name another checkpoint_dir."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be used ({error.strerror}); let checkpoint_dir name a folder "
                "that the server may write to."
            ) from None
        path = self._latest()
        if path is None:
            return None
        try:
            return Checkpoint(path, _read(path), left=(path / _LEFT).exists())
        except Exception as error:  # noqa: BLE001 - files may be damaged in any way
            raise CheckpointError(
                f"The checkpoint {path} cannot be read ({type(error).__name__}); restore its files "
                "or name an empty checkpoint_dir to begin anew."
            ) from None

    def save(self, server_round: int, content: Mapping[str, Tree]) -> None:
        """Keep the state after a round, and forget earlier ones; once for a round.

        If that is an `OSError`, the checkpoint before is still there.
        """
        path = self.path / f"round-{server_round:06d}"
        if path.exists():
            return
        arrays: dict[str, Any] = {}

        def collected(array: Any) -> dict[str, str]:
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                kind = type(array).__name__
                raise CheckpointError(f"A checkpoint keeps what JSON takes, and arrays; no {kind}.")
            name = str(len(arrays))
            arrays[name] = array
            return {_ARRAY: name}

        text = json.dumps(dict(content), default=collected).encode()
        sums: list[str] = []
        unfinished = self.path / f".{path.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        for name, write in (
            (_STATE, lambda file: file.write(text)),
            (_ARRAYS, lambda file: np.savez(file, **arrays)),
            (_SUMS, lambda file: file.write("".join(sums).encode())),
        ):
            with open(unfinished / name, "xb", opener=partial(os.open, mode=0o600)) as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            sums.append(_sum_of(unfinished / name))
        _flush_folder(unfinished)
        earlier = self._kept()
        unfinished.rename(path)
        _flush_folder(self.path)
        for each in earlier:
            shutil.rmtree(each, ignore_errors=True)

    def mark_left(self) -> None:
        """Note that something is about to be sent to the nodes after the last checkpoint."""
        path = self._latest()
        if path is not None and not (path / _LEFT).exists():
            (path / _LEFT).touch(mode=0o600)
            _flush_folder(path)

    def _kept(self) -> list[Path]:
        return [path for path in self.path.glob("round-*") if path.name[6:].isdecimal()]

    def _latest(self) -> Path | None:
        return max(self._kept(), key=lambda path: int(path.name[6:]), default=None)


def _read(path: Path) -> Any:
    """Return the content of a checkpoint; nothing is parsed that is not as it was written."""
    sums = "".join(_sum_of(path / name) for name in (_STATE, _ARRAYS))
    if (path / _SUMS).read_text(encoding="utf-8") != sums:
        raise ValueError
    with np.load(path / _ARRAYS, allow_pickle=False) as arrays:
        return json.loads(
            (path / _STATE).read_bytes(),
            object_hook=lambda found: arrays[found[_ARRAY]] if _ARRAY in found else found,
        )


def _sum_of(path: Path) -> str:
    """Return the line of a file as `sha256sum` writes it."""
    with path.open("rb") as file:
        return f"{file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


def _lock(path: Path) -> None:
    """Hold a file until this process ends; `BlockingIOError` if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    place = os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino
    try:
        if fcntl is None or place in _locked:
            os.close(descriptor)
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return  # some network disks have no locks
    _locked.add(place)


def _flush_folder(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folder
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
