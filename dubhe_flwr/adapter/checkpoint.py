"""The checkpoint directory of a run: one npz file, never a pickle."""

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters

from dubhe_flwr.adapter.durable import lock, replacing
from dubhe_flwr.errors import CheckpointError

_FILE: Final = "checkpoint.npz"
_LOCK: Final = ".lock"
_JSON: Final = "json"  # the array that holds everything but arrays
_TAG: Final = "dubhe"  # marks the stand-in for a value that JSON has no type for

_locked: set[tuple[int, int]] = set()
"""Device and inode of the lock files that this process holds open until it ends."""


class CheckpointDirectory:
    """Keeps the last completed round, even if the process is killed while it writes.

    Only the server's user can read the file. It stores JSON values, bytes, arrays, and Flower's
    `Parameters` and `ArrayRecord`; tuples come back as lists, and numpy's numbers as Python's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self.file = self.path / _FILE

    def open(self) -> Any:
        """Return the last checkpoint, or None if there is none.

        Locks the directory for this process. Raises `CheckpointError` if the directory is not
        writable, another process is using it, or its file is damaged.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _lock(self.path / _LOCK)
        except BlockingIOError:
            raise CheckpointError(
                f"Another process is using {self.path}; stop it, or choose another checkpoint_dir."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be used ({error.strerror}); set checkpoint_dir to a folder "
                "that the server may write to."
            ) from None
        try:
            return _read(self.file) if self.file.exists() else None
        except Exception as error:  # noqa: BLE001 - a file may be damaged in any way
            raise CheckpointError(
                f"The checkpoint {self.file} cannot be read ({type(error).__name__}); restore it, "
                "or name an empty checkpoint_dir to start over."
            ) from None

    def save(self, content: Any) -> None:
        """Replace the saved checkpoint.

        Raises `CheckpointError` for anything that only a pickle could hold. An `OSError` leaves the
        previous checkpoint as it was.
        """
        arrays: dict[str, Any] = {}
        _check_keys(content)
        text = json.dumps(content, default=partial(_encoded, arrays)).encode()
        arrays[_JSON] = np.frombuffer(text, dtype=np.uint8)
        with replacing(self.file) as file:
            np.savez(file, **arrays)


def _read(path: Path) -> Any:
    """Return the content of a file; each of its parts has a checksum, which is compared."""
    with np.load(path, allow_pickle=False) as arrays:
        return json.loads(arrays[_JSON].tobytes(), object_hook=partial(_decoded, arrays))


def _check_keys(value: Any) -> None:
    """Refuse keys that would not come back as they are."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _TAG:
                raise CheckpointError(
                    f"A checkpoint cannot hold the key {key!r}; use strings other than {_TAG!r}."
                )
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        _check_keys(item)


def _encoded(arrays: dict[str, Any], value: Any) -> Any:
    """Return the JSON stand-in for a value that JSON has no type for."""
    match value:
        case np.ndarray() if not value.dtype.hasobject:
            name = str(len(arrays))
            arrays[name] = value
            return {"array": name, _TAG: True}
        case np.generic():
            return value.item()
        case bytes():
            return {"bytes": np.frombuffer(value, dtype=np.uint8), _TAG: True}
        case Parameters():
            return {"parameters": [value.tensors, value.tensor_type], _TAG: True}
        case ArrayRecord():
            named = [(name, a.dtype, a.shape, a.stype, a.data) for name, a in value.items()]
            return {"record": named, _TAG: True}
    raise CheckpointError(
        f"A checkpoint cannot hold values of type {type(value).__name__}; use arrays of numbers, "
        "numbers, strings, bytes, or lists and dictionaries of them."
    )


def _decoded(arrays: Mapping[str, Any], found: dict[str, Any]) -> Any:
    if not found.pop(_TAG, False):
        return found
    match found:
        case {"array": name}:
            return arrays[name]
        case {"bytes": array}:
            return array.tobytes()
        case {"parameters": [tensors, kind]}:
            return Parameters(tensors, kind)
        case {"record": named}:
            return ArrayRecord({name: Array(d, tuple(s), *rest) for name, d, s, *rest in named})
    raise ValueError


def _lock(path: Path) -> None:
    """Lock a file until this process ends; raises `BlockingIOError` if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    place = os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino
    try:
        if place not in _locked and lock(descriptor, waits=False):
            _locked.add(place)
            return
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # some network disks have no locks
        pass
    os.close(descriptor)
