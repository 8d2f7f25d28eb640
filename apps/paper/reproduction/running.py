"""Run the cells that are not finished yet, and say how long the others will take."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import WARNING
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dubhe_flwr.errors import DataError
from dubhe_flwr.experiments.engine import flower_log_level
from dubhe_flwr.experiments.findings import provenance
from reproduction.cell import Advance, Cell, Measured, Resources
from reproduction.encrypting import measure_encryption, measure_exchange
from reproduction.selecting import measure_registry, measure_study
from reproduction.store import CellStore
from reproduction.training import measure_training

__all__ = ["RUNNERS", "Runner", "run_cells"]

Runner: TypeAlias = Callable[[Mapping[str, Any], Resources, Advance], Measured]
"""Measures a cell: its config, what the machine has, and what to tell of the progress."""

RUNNERS: Final[Mapping[str, Runner]] = {
    "study": measure_study,
    "registry": measure_registry,
    "encryption": measure_encryption,
    "exchange": measure_exchange,
    "training": measure_training,
}
"""How each kind of cell is measured."""

_PACKAGES: Final = ("dubhe-flwr", "numpy", "scipy", "phe", "flwr")
_SPEED_OVER_SECONDS: Final = 1800


def run_cells(
    cells: Iterable[Cell],
    store: CellStore,
    console: Console,
    *,
    resources: Resources = Resources(),  # noqa: B008 - frozen
    skip_missing_data: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what is not in the store yet, and return all cells.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted. A cell that occurs twice is measured once.
    store : CellStore
        Where finished cells are and go to.
    console : rich.console.Console
        Where to show how far it is.
    resources : Resources, optional
        Folder of the data sets, and where to train.
    skip_missing_data : bool (default: False)
        Leave cells out whose data set is not there.

    Returns
    -------
    finished : dict of str to mapping
        What `CellStore.load` gives for each finished cell, by `Cell.key`.
    missing : list of str
        A sentence for each data set that is not there.

    Raises
    ------
    DataError
        If a data set is not there and that is not to be skipped.
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
                measured = RUNNERS[cell.kind](cell.config, resources, advance)
            except DataError as error:
                if not skip_missing_data:
                    raise
                missing[data] = str(error)
                continue
            facts = provenance([*_PACKAGES, *measured.packages], "python apps/paper")
            seconds = time.perf_counter() - began
            store.save(
                cell,
                measured.result,
                {"seed": cell.config.get("seed"), "device": measured.device, **facts}
                | {"seconds": round(seconds, 3)},
            )
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
