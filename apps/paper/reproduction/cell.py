"""A cell: one measurement of the reproduction, known by its settings alone."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dubhe_flwr.errors import SettingsError

__all__ = ["Advance", "Cell", "Measured", "Resources"]

Advance: TypeAlias = Callable[[float], None]
"""Is told how large a share of a cell has been done since it was last told."""


@dataclass(frozen=True)
class Resources:
    """What the machine has; it decides where a cell is measured, not what it is.

    Parameters
    ----------
    data_dir : str, optional (default: the user's cache)
        Folder of the data sets.
    device : {"auto", "cpu", "cuda"} (default: "auto")
        Where to train.
    cohort : {"auto", "on", "off"} (default: "auto")
        Whether the clients of a round train together, as in `CompareSettings`.

    Raises
    ------
    SettingsError
        If the device is unknown.
    """

    data_dir: str | None = None
    device: str = "auto"
    cohort: str = "auto"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise SettingsError(f"device={self.device!r} is unknown; choose auto, cpu or cuda.")


@dataclass(frozen=True)
class Measured:
    """What a cell found.

    Parameters
    ----------
    result : mapping
        In terms of JSON.
    device : str (default: "cpu")
        What it was measured on.
    packages : tuple of str
        Packages on which the numbers depend, beyond those of all cells.
    """

    result: Mapping[str, Any]
    device: str = "cpu"
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One measurement. Two experiments that need the same one share it.

    Parameters
    ----------
    kind : str
        What is measured: see `running.RUNNERS`.
    name : str
        What a reader is to see, such as ``MNIST-10/1.5, greedy, seed 0``.
    config : mapping
        All that decides the result, in terms of JSON.
    work : float (default: 1)
        How long it takes, relative to other cells; for the time left.

    Examples
    --------
    >>> cell = Cell("study", "MNIST-10/1.5, greedy", {"seed": 0})
    >>> cell.key
    'study/mnist-10-1.5-greedy-acb6d67b'
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    work: float = 1.0

    @property
    def key(self) -> str:
        """Its identity: a path without an ending."""
        canonical = json.dumps([self.kind, self.config], sort_keys=True)
        digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
        readable = re.sub(r"[^a-z0-9.=]+", "-", self.name.lower()).strip("-")
        return f"{self.kind}/{readable}-{digest}"
