"""Cells are measured once, in order, and one that cannot be measured says why."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from reproduction import Cell, CellStore, Resources, running
from reproduction.cell import Advance, Measured
from rich.console import Console

from dubhe_flwr.errors import DataError

QUIET = Console(quiet=True)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the cells that have been measured; 13 stands for missing data."""
    numbers: list[int] = []

    def measure(config: Mapping[str, Any], resources: Resources, advance: Advance) -> Measured:
        if config["number"] == 13:
            raise DataError("Fetch 13.")
        numbers.append(config["number"])
        advance(1.0)
        return Measured({"double": 2 * config["number"], "from": resources.data_dir}, "abacus")

    monkeypatch.setattr(running, "RUNNERS", {"number": measure})
    return numbers


def cell(number: int) -> Cell:
    """Return a cell of a data set of its own."""
    return Cell("number", f"number {number}", {"number": number, "dataset": str(number), "seed": 5})


def test_a_finished_cell_is_not_measured_again(tmp_path: Path, measured: list[int]) -> None:
    """Not in the same sweep, and not in the next."""
    store = CellStore(tmp_path)
    running.run_cells([cell(1), cell(2), cell(1)], store, QUIET)
    finished, missing = running.run_cells([cell(3), cell(2)], store, QUIET)
    assert measured == [1, 2, 3]
    assert {key: content["result"]["double"] for key, content in finished.items()} == {
        cell(2).key: 4,
        cell(3).key: 6,
    }
    assert missing == []


def test_an_interrupted_sweep_goes_on(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished before the interruption stays."""
    store = CellStore(tmp_path)
    with pytest.raises(DataError, match="Fetch 13"):
        running.run_cells([cell(1), cell(13), cell(2)], store, QUIET)
    running.run_cells([cell(1), cell(2)], store, QUIET)
    assert measured == [1, 2]


def test_missing_data_can_be_left_out(tmp_path: Path, measured: list[int]) -> None:
    """All else is measured, and a sentence says what to fetch."""
    finished, missing = running.run_cells(
        [cell(13), cell(1)], CellStore(tmp_path), QUIET, skip_missing_data=True
    )
    assert measured == [1]
    assert list(finished) == [cell(1).key]
    assert missing == ["Fetch 13."]


@pytest.mark.usefixtures("measured")
def test_the_file_says_where_the_numbers_come_from(tmp_path: Path) -> None:
    """Seed, versions, device, command, date and time; the data folder is where the user has it."""
    finished, _ = running.run_cells(
        [cell(1)], CellStore(tmp_path), QUIET, resources=Resources("data")
    )
    (content,) = finished.values()
    provenance = content["provenance"]
    assert set(provenance) == {"seed", "device", "versions", "command", "date", "seconds"}
    assert provenance["seed"] == 5
    assert provenance["device"] == "abacus"
    assert {"python", "dubhe_flwr", "numpy", "scipy", "phe", "flwr"} <= set(provenance["versions"])
    assert provenance["command"].startswith("python apps/paper")
    assert content["result"]["from"] == "data"
    assert "data_dir" not in content["cell"]["config"]


@pytest.mark.usefixtures("measured")
def test_progress_counts_what_is_left(tmp_path: Path) -> None:
    """Finished cells are no part of it; the bar ends full."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    store = CellStore(tmp_path)
    running.run_cells([cell(1)], store, QUIET)
    running.run_cells([cell(1), cell(2)], store, console)
    shown = screen.getvalue()
    assert "number 2" in shown
    assert "number 1" not in shown
    assert "100%" in shown
    assert "left" in shown
