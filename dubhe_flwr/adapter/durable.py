"""Files that survive a crash, and locks that keep other processes out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows, two processes that use one folder go unnoticed
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write; afterwards, it takes the place of the one at `path`.

    The content is written under another name, flushed to the disk and then renamed, so the file at
    `path` is never half written. Only the process's user can read it. If an error is raised, the
    file at `path` stays as it was.
    """
    unfinished = path.with_name(f".{path.name}")
    with open(unfinished, "wb", opener=partial(os.open, mode=0o600)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _flush_folder(path.parent)


def lock(descriptor: int, *, waits: bool) -> bool:
    """Lock an open file until `release`; return False on Windows, where this does nothing.

    If another process holds the lock, waits or raises `BlockingIOError`. Raises another `OSError`
    on network file systems that have no locks.
    """
    if fcntl is None:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    return True


def release(descriptor: int) -> None:
    """Unlock and close a file; closing it alone would not unlock it if a forked process has it."""
    with suppress(OSError):
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _flush_folder(path: Path) -> None:
    """Flush the new name to the disk; Windows and some network file systems cannot."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
