"""The folder of finished cells: a JSON file each, complete or not there at all."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dubhe_flwr.errors import DataError
from reproduction.cell import Cell

__all__ = ["CellStore"]


@dataclass(frozen=True)
class CellStore:
    """Finished cells below a folder.

    Parameters
    ----------
    folder : Path
        Where to write; made if need be.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> cell = Cell("study", "greedy", {"seed": 0})
    >>> with TemporaryDirectory() as folder:
    ...     store = CellStore(Path(folder))
    ...     before = store.load(cell)
    ...     store.save(cell, {"emd": 0.1}, {"device": "cpu"})
    ...     before, store.load(cell)["result"]
    (None, {'emd': 0.1})
    """

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return where a cell is, or will be."""
        return self.folder / f"{cell.key}.json"

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """Return what `save` wrote, or None if the cell is not finished.

        Raises
        ------
        DataError
            If the file holds something else.
        """
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

    def save(self, cell: Cell, result: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
        """Write a finished cell; whoever reads meanwhile sees the old state or the new one.

        Parameters
        ----------
        cell : Cell
            What was measured.
        result : mapping
            What was found.
        provenance : mapping
            Versions, device, command, date and seconds.
        """
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "cell": {"kind": cell.kind, "name": cell.name, "config": cell.config},
            "provenance": provenance,
            "result": result,
        }
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
