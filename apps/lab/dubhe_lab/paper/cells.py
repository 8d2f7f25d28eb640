"""Cells: measurements identified by their settings, made once, and stored in a folder."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import Console

from dubhe_flwr.errors import DataError
from dubhe_lab.experiments.findings import provenance
from dubhe_lab.experiments.progress import progress_bar, say_in_file
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.report.results import read_json, write_json

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe", "flwr")

Advance: TypeAlias = Callable[[float], None]
"""Callback that gets the share of a cell done since the last call."""


@dataclass(frozen=True)
class Measured:
    """A cell's result as JSON values, the device it ran on, and other packages it used."""

    result: Mapping[str, Any]
    device: str = "cpu"
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One measurement, which experiments can share.

    Parameters
    ----------
    kind : str
        Kind of measurement.
    name : str
        Display name, such as ``MNIST-10/1.5, greedy, seed 0``.
    config : mapping
        Everything that decides the result, as JSON values.
    measure : callable (MachineSettings, Advance) -> Measured
        Runs the measurement.
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    measure: Callable[[MachineSettings, Advance], Measured]

    @cached_property
    def key(self) -> str:
        """The cell's identity: a path without a suffix."""
        canonical = json.dumps([self.kind, self.config], sort_keys=True)
        digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
        readable = re.sub(r"[^a-z0-9.=]+", "-", self.name.lower()).strip("-")
        return f"{self.kind}/{readable}-{digest}"


@dataclass(frozen=True)
class CellStore:
    """A folder of finished cells, one JSON file each, written completely or not at all."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return the path of a cell's file."""
        return self.folder / f"{cell.key}.json"

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """Return the content that `save` wrote, or None if the cell has no file.

        Raises `DataError` if the file holds anything else.
        """
        path = self.path(cell)
        try:
            return read_json(path, ["result", "provenance"])
        except ValueError:
            raise DataError(
                f"{path} is not a finished cell; delete it to measure it again."
            ) from None

    def load_all(self, cells: Iterable[Cell]) -> dict[str, Any]:
        """Load all finished cells, by `Cell.key`."""
        loaded = {cell.key: self.load(cell) for cell in cells}
        return {key: content for key, content in loaded.items() if content is not None}

    def save(self, cell: Cell, result: Mapping[str, Any], source: Mapping[str, Any]) -> None:
        """Write a finished cell with its source: versions, device, command, date and seconds.

        The file is replaced in one step.
        """
        content = {
            "cell": {"kind": cell.kind, "name": cell.name, "config": cell.config},
            "provenance": source,
            "result": result,
        }
        write_json(self.path(cell), content)


def run_cells(
    cells: Iterable[Cell],
    store: CellStore,
    console: Console,
    *,
    machine: MachineSettings = MachineSettings(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """Measure the cells that the store lacks, and return all finished cells by `Cell.key`."""
    wanted = {cell.key: cell for cell in cells}
    finished = store.load_all(wanted.values())
    waiting = [cell for key, cell in wanted.items() if key not in finished]
    with progress_bar(console, len(waiting)) as show:
        for number, cell in enumerate(waiting):
            show(completed=number, description=cell.name)
            say_in_file(console, cell.name)
            began = time.perf_counter()
            measured = cell.measure(machine, lambda share: show(advance=share))
            source = {
                "seed": cell.config.get("seed"),
                "device": measured.device,
                **provenance([*_PACKAGES, *measured.packages]),
                "seconds": round(time.perf_counter() - began, 3),
            }
            store.save(cell, measured.result, source)
    return store.load_all(wanted.values())
