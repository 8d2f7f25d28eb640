"""The report on natural federations."""

from reproduction_results import section

from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings


def test_missing_measurements_are_left_out() -> None:
    """Federations without cells have no table, and methods without cells no row."""
    options = PaperSettings(scale="full")
    cells = EXPERIMENTS["natural"].cells(options)
    there = [cell for cell in cells if "chem97" in cell.name and "powd" not in cell.name]
    (table,) = section("natural", options, there).tables
    assert "Does Dubhe help? The study says: much" in table.caption
    assert "Power-of-Choice" not in [row[0] for row in table.rows]
