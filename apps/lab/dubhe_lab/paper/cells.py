"""Cells: measurements that are known by their settings, made once, and kept in a folder."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import WARNING
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dubhe_flwr.errors import DataError
from dubhe_lab.experiments.findings import provenance
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.report.results import write_json

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe", "flwr")
_SPEED_OVER_SECONDS: Final = 1800

Advance: TypeAlias = Callable[[float], None]
"""Is told how large a share of a cell has been done since it was last told."""


@dataclass(frozen=True)
class Measured:
    """What a cell found, in terms of JSON, on which device, and with which further packages."""

    result: Mapping[str, Any]
    device: str = "cpu"
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One measurement. Two experiments that need the same one share it.

    Parameters
    ----------
    kind : str
        What is measured.
    name : str
        What a reader is to see, such as ``MNIST-10/1.5, greedy, seed 0``.
    config : mapping
        All that decides the result, in terms of JSON.
    measure : callable (MachineSettings, Advance) -> Measured
        Measures it.
    work : float (default: 1)
        How long it takes, relative to other cells; for the time left.
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    measure: Callable[[MachineSettings, Advance], Measured]
    work: float = 1.0

    @property
    def key(self) -> str:
        """Its identity: a path without an ending."""
        canonical = json.dumps([self.kind, self.config], sort_keys=True)
        digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
        readable = re.sub(r"[^a-z0-9.=]+", "-", self.name.lower()).strip("-")
        return f"{self.kind}/{readable}-{digest}"


@dataclass(frozen=True)
class CellStore:
    """Finished cells below a folder: a JSON file each, complete or not there at all."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return where a cell is, or will be."""
        return self.folder / f"{cell.key}.json"

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """Return what `save` wrote, None if there is no file; `DataError` for something else."""
        path = self.path(cell)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            complete = {"result", "provenance"} <= content.keys()
        except FileNotFoundError:
            return None
        except (AttributeError, ValueError):
            complete = False
        if not complete:
            raise DataError(f"{path} holds no finished cell; delete it, and it is measured again.")
        finished: dict[str, Any] = content
        return finished

    def load_all(self, cells: Iterable[Cell]) -> dict[str, Any]:
        """Return what `load` gives for each cell that is finished, by `Cell.key`."""
        loaded = {cell.key: self.load(cell) for cell in cells}
        return {key: content for key, content in loaded.items() if content is not None}

    def save(self, cell: Cell, result: Mapping[str, Any], source: Mapping[str, Any]) -> None:
        """Write a finished cell with its source: versions, device, command, date and seconds.

        Whoever reads meanwhile sees the old state or the new one.
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
    skip_missing_data: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what is not in the store yet, each cell once, and return all that are finished.

    They are what `CellStore.load` gives, by `Cell.key`. With `skip_missing_data` cells are left out
    whose data set is not there; the second result has a sentence for each of these data sets.
    """
    wanted = {cell.key: cell for cell in cells}
    finished = store.load_all(wanted.values())
    waiting = [cell for key, cell in wanted.items() if key not in finished]
    missing: dict[str, str] = {}
    with flower_log_level(WARNING), _bar(console, waiting) as begin:
        for cell in waiting:
            advance = begin(cell)
            data = str(cell.config.get("dataset", cell.key))
            if data in missing:
                continue
            began = time.perf_counter()
            try:
                measured = cell.measure(machine, advance)
            except DataError as error:
                if not skip_missing_data:
                    raise
                missing[data] = str(error)
                continue
            source = {
                "seed": cell.config.get("seed"),
                "device": measured.device,
                **provenance([*_PACKAGES, *measured.packages]),
                "seconds": round(time.perf_counter() - began, 3),
            }
            store.save(cell, measured.result, source)
    return store.load_all(wanted.values()), list(missing.values())


@contextmanager
def _bar(console: Console, waiting: Sequence[Cell]) -> Iterator[Callable[[Cell], Advance]]:
    """Yield what is to be called with each cell that begins."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        speed_estimate_period=_SPEED_OVER_SECONDS,
    )
    task = bar.add_task("nothing to do", total=sum(cell.work for cell in waiting) or None)
    done = 0.0

    def begin(cell: Cell) -> Advance:
        nonlocal done
        # Whatever the cell before told of itself, it is over.
        bar.update(task, completed=done, description=f"[bold]{cell.name}")
        done += cell.work
        return lambda share: bar.update(task, advance=share * cell.work)

    with bar:
        yield begin
        bar.update(task, completed=done)
