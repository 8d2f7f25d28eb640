"""A directory in which a run keeps what it needs to go on: JSON and npz, never a pickle."""

import json
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dubhe_flwr.adapter.packing import Tree, join_arrays, split_arrays
from dubhe_flwr.errors import CheckpointError

__all__ = ["Checkpoint", "CheckpointDirectory"]

_NAME: Final = re.compile(r"round-(\d+)")
_STATE: Final = "state.json"
_ARRAYS: Final = "arrays.npz"
_LEFT: Final = "left"


@dataclass(frozen=True)
class Checkpoint:
    """What was kept after a round.

    Parameters
    ----------
    path : Path
        Where it lies.
    content : mapping
        Plain values and arrays.
    left : bool
        Whether anything was sent to the nodes since.
    """

    path: Path
    content: Mapping[str, Tree]
    left: bool


class CheckpointDirectory:
    """Keeps the last completed round, whenever the process is killed.

    A checkpoint is a folder `round-N`. It is written under another name, flushed to the disk and
    renamed, so that it is there as a whole or not at all.

    Parameters
    ----------
    path : str or Path
        The directory; made when it is needed. Each run has one of its own.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def latest(self) -> Checkpoint | None:
        """Return the checkpoint of the last completed round; none before the first one.

        Raises
        ------
        CheckpointError
            If its files cannot be read.
        """
        path = max(self._kept(), key=_round_of, default=None)
        if path is None:
            return None
        try:
            content = json.loads((path / _STATE).read_text(encoding="utf-8"))
            with np.load(path / _ARRAYS, allow_pickle=False) as arrays:
                content = join_arrays(content, arrays)
        except (OSError, EOFError, ValueError, TypeError, LookupError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"The checkpoint {path} cannot be read ({type(error).__name__}); restore its files "
                "or name an empty checkpoint_dir to begin anew."
            ) from None
        return Checkpoint(path, content, left=(path / _LEFT).exists())

    def save(self, server_round: int, content: Mapping[str, Tree]) -> None:
        """Keep the state after a round, and forget earlier ones; once for a round.

        Parameters
        ----------
        server_round : int
            The round that was completed; 0 before the first one.
        content : mapping
            Plain values and arrays.
        """
        path = self.path / f"round-{server_round:06d}"
        if path.exists():
            return
        earlier = self._kept()
        arrays: dict[str, Any] = {}
        text = json.dumps(split_arrays(dict(content), arrays))
        unfinished = self.path / f".{path.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with (unfinished / _STATE).open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with (unfinished / _ARRAYS).open("wb") as binary:
            np.savez(binary, **arrays)
            binary.flush()
            os.fsync(binary.fileno())
        _flush_folder(unfinished)
        unfinished.rename(path)
        _flush_folder(self.path)
        for each in earlier:
            shutil.rmtree(each, ignore_errors=True)

    def mark_left(self) -> None:
        """Note that something is about to be sent to the nodes after the last checkpoint."""
        path = max(self._kept(), key=_round_of, default=None)
        if path is not None and not (path / _LEFT).exists():
            (path / _LEFT).touch()
            _flush_folder(path)

    def _kept(self) -> list[Path]:
        return [path for path in self.path.glob("round-*") if _NAME.fullmatch(path.name)]


def _round_of(path: Path) -> int:
    return int(path.name.removeprefix("round-"))


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
