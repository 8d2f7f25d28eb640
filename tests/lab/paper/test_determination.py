"""What determination buys: the cells, and the gains over Dubhe's defaults."""

from typing import Any

import pytest
from reproduction_results import finished

from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.determination import _cell
from dubhe_lab.paper.experiment import PaperSettings

FULL = PaperSettings(scale="full")
CELLS = EXPERIMENTS["determination"].cells(FULL)


@pytest.mark.parametrize(
    ("selection", "changed"),
    [
        ("Dubhe, Tries(20)", {"determination": "tries"}),
        ("Dubhe, Groups(4)", {"determination": "grouped"}),
        ("Dubhe, local skew 0.3", {"local_skew": 0.3}),
    ],
)
def test_each_selection_changes_only_its_own_settings(
    selection: str, changed: dict[str, Any]
) -> None:
    """Six selections, three optimizers and ten seeds, which differ in what their names say."""
    assert len(CELLS) == len({cell.key for cell in CELLS}) == 6 * 3 * 10
    usual, config = (_cell(name, "SGD", 0, FULL).config for name in ("Dubhe", selection))
    assert {name: value for name, value in config.items() if usual.get(name) != value} == changed


def test_gains_over_the_defaults_are_paired_by_seed() -> None:
    """Each accuracy has its gain over Dubhe's defaults, in which a seed's effect cancels."""
    found = finished(CELLS)
    for cell in CELLS:
        (method,) = found[cell.key]["result"]["methods"].values()
        grouped = cell.config.get("determination") == "grouped"
        seed = cell.config["seed"]
        points = 80 + seed + (2 + seed % 2 if grouped else 0)
        method["accuracy"] = [points / 100] * len(method["accuracy"])
    (made,) = sections(["determination"], FULL, found)
    rows = {row[0]: row[1:] for row in made.tables[0].rows}
    assert rows["Dubhe"] == ["84.5"] * 3
    assert rows["Dubhe, Groups(4)"] == ["87.0 (+2.5±0.2)"] * 3


def test_no_table_before_each_selection_is_measured() -> None:
    """While a selection is missing there is no table, because gains would not be comparable."""
    found = finished(cell for cell in CELLS if cell.config.get("determination") != "grouped")
    (made,) = sections(["determination"], FULL, found)
    assert not made.tables
