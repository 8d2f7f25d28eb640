"""Records what a node has spent, in a file on its own host that outlasts the run."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from logging import ERROR
from pathlib import Path
from typing import Any, Final

from flwr.app import Context

from dubhe_flwr.adapter.durable import lock, release, replacing
from dubhe_flwr.adapter.messages import log
from dubhe_flwr.errors import MalformedMessageError, RefusedError
from dubhe_flwr.protocol.node.memory import Ledger

StateDir = str | os.PathLike[str] | Callable[[Context], str | os.PathLike[str]]
"""A folder, or a function that finds it, for instance from the node config."""

_UNUSABLE: Final = (
    "dubhe: state_dir=%s cannot be used (%s); let the node's user write to it, on a disk with room "
    "and with locks."
)
_UNREADABLE: Final = (
    "dubhe: the records %s are damaged, or another version wrote them (%s); restore or remove them."
)
_DAMAGED: Final = (
    *(ValueError, LookupError, AttributeError, TypeError, RecursionError),
    MalformedMessageError,
)

Save = Callable[[Ledger], None]


@contextmanager
def open_ledger(folder: Path, identity: str = "") -> Iterator[tuple[Ledger, Save]]:
    """Lock a node's file while a request is answered; yield a ledger and a function to replace it.

    Each identity has a file of its own, so nodes on one host may share a folder. Other runs of the
    same node wait. Only the node's user can read the files.

    Raises
    ------
    RefusedError
        If the folder cannot be used or its file is damaged, since a node that has lost count must
        not answer.
    """
    file = folder / ledger_name(identity)
    with _usable(file):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    owner = os.getpid()
    try:
        with _usable(file):
            lock(descriptor, waits=True)  # without a lock, two runs would lose counts
            before = _read(file)

        def save(ledger: Ledger) -> None:
            if ledger != before:
                with _usable(file):
                    _write(file, ledger)

        yield before, save
    finally:
        if os.getpid() == owner:  # not if `label_counts` forked a process, and that one ends
            release(descriptor)


def ledger_name(identity: str) -> str:
    """Return the name of a node's file, which does not reveal the identity."""
    return f"dubhe-{sha256(identity.encode()).hexdigest()[:16]}.json"


def _read(file: Path) -> Ledger:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Ledger()
    packed = {key: bytes.fromhex(value) for key, value in kept["packed"].items()}
    return Ledger.from_fields({**kept["plain"], **packed})


def _write(file: Path, ledger: Ledger) -> None:
    """Replace the whole file, and flush it to the disk before the node answers."""
    fields = ledger.to_fields()
    packed = {key: value.hex() for key, value in fields.items() if isinstance(value, bytes)}
    plain: dict[str, Any] = {key: fields[key] for key in fields if key not in packed}
    with replacing(file) as opened:
        opened.write(json.dumps({"plain": plain, "packed": packed}).encode())


@contextmanager
def _usable(file: Path) -> Iterator[None]:
    """Log what is wrong with the folder or file, and give the server no details."""
    try:
        yield
    except OSError as error:
        log(ERROR, _UNUSABLE, file.parent, error.strerror)
    except _DAMAGED as error:
        log(ERROR, _UNREADABLE, file, type(error).__name__)
    else:
        return
    raise RefusedError("This node cannot use its state_dir; its log says why.")
