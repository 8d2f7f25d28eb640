"""What several commands make of their arguments."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dubhe_flwr.errors import SettingsError

__all__ = ["names", "numbers", "writable_file", "writable_folder"]

NumberT = TypeVar("NumberT", int, float)


def numbers(name: str, text: str, kind: Callable[[str], NumberT]) -> tuple[NumberT, ...]:
    """Return numbers that are separated by commas.

    Parameters
    ----------
    name : str
        Of the argument, for the message.
    text : str
        What the user gave.
    kind : callable
        `int` or `float`.

    Raises
    ------
    SettingsError
        If it is something else.

    Examples
    --------
    >>> numbers("seeds", "0, 1", int)
    (0, 1)
    """
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(
            f"{name}={text!r} must be numbers separated by commas, as in 1,2,10."
        ) from None


def names(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas.

    Examples
    --------
    >>> names("random, dubhe,")
    ('random', 'dubhe')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def writable_folder(folder: Path) -> Path:
    """Make a folder before the work begins whose results it shall hold.

    Raises
    ------
    SettingsError
        If it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{folder} cannot be written ({error.strerror}); give a folder that can."
        ) from None
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"{folder} cannot be written; give a folder that can.")
    return folder


def writable_file(path: Path | None) -> None:
    """Make the folder of a file before the work begins whose results it shall hold.

    Raises
    ------
    SettingsError
        If the folder cannot be made, the file cannot be written, or the path is that of a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise SettingsError(f"{path} is a folder; give the name of a file in it.")
    if is_new := not path.exists():
        writable_folder(path.parent)
    try:
        path.open("a").close()
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written ({error.strerror}); give a file that can."
        ) from None
    if is_new:
        path.unlink()
