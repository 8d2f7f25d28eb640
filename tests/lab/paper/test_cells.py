"""Cells are measured once, and stored completely or not at all.

The names of the documentation's stored cells pin `Cell.key`.
"""

import json
from pathlib import Path

import pytest
from rich.console import Console

from dubhe_flwr.errors import DataError
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, CellStore, Measured, run_cells


def never(_machine: MachineSettings, _advance: Advance) -> Measured:
    """Measure nothing."""
    raise AssertionError


CELL = Cell("study", "10/1.5, greedy", {"seed": 3}, never)


def test_an_interrupted_save_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted save leaves neither a partial file nor a temporary one."""
    store = CellStore(tmp_path)
    store.save(CELL, {"emd": 1}, {})

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.save(CELL, {"emd": 2}, {})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [store.path(CELL).name]
    assert json.loads(store.path(CELL).read_text(encoding="utf-8"))["result"] == {"emd": 1}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"result": 1}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    """A damaged file raises an error that names it and says to delete it."""
    store = CellStore(tmp_path)
    store.path(CELL).parent.mkdir()
    store.path(CELL).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="delete it to measure it again"):
        store.load(CELL)


QUIET = Console(quiet=True)


def cell(number: int, measured: list[int]) -> Cell:
    """Return a cell that adds its number when it is measured."""

    def measure(machine: MachineSettings, advance: Advance) -> Measured:
        measured.append(number)
        advance(1.0)
        return Measured({"double": 2 * number, "from": machine.data_dir}, "abacus")

    return Cell("number", f"number {number}", {"number": number, "seed": 5}, measure)


def test_a_finished_cell_is_not_measured_again(tmp_path: Path) -> None:
    """A finished cell is measured only once, in this sweep or a later one."""
    store, measured = CellStore(tmp_path), list[int]()
    run_cells([cell(1, measured), cell(2, measured), cell(1, measured)], store, QUIET)
    finished = run_cells([cell(3, measured), cell(2, measured)], store, QUIET)
    assert measured == [1, 2, 3]
    assert {key: content["result"]["double"] for key, content in finished.items()} == {
        cell(2, measured).key: 4,
        cell(3, measured).key: 6,
    }


def test_the_file_says_where_the_numbers_come_from(tmp_path: Path) -> None:
    """The file holds seed, versions, device, command, date and time, but no data folder."""
    finished = run_cells(
        [cell(1, [])], CellStore(tmp_path), QUIET, machine=MachineSettings(data_dir="data")
    )
    (content,) = finished.values()
    provenance = content["provenance"]
    assert set(provenance) == {"seed", "device", "versions", "command", "date", "seconds"}
    assert provenance["seed"] == 5
    assert provenance["device"] == "abacus"
    assert {"python", "dubhe_flwr", "numpy", "scipy", "phe", "flwr"} <= set(provenance["versions"])
    assert provenance["command"].startswith("dubhe")
    assert content["result"]["from"] == "data"
    assert "data_dir" not in content["cell"]["config"]
