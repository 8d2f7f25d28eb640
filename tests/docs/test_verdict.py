"""What a study says it foretells is what trainings in other federations gained."""

from bench.measuring import markdown_of
from docs.pages import ROOT
from reproduction.cells import CellStore
from reproduction.commands import EXPERIMENTS, sections
from reproduction.experiment import PaperSettings

PAGE = ROOT / "docs" / "howto" / "my_federation.md"


def test_the_page_has_the_table_of_the_measurements() -> None:
    """All of them are there, and where "not" is said there is less than a point to gain."""
    options = PaperSettings(scale="full")
    cells = EXPERIMENTS["verdict"].cells(options)
    found = CellStore(ROOT / "docs" / "verdict" / "cells").load_all(cells)
    assert len(found) == len(cells)
    (section,) = sections(["verdict"], options, found)
    (table,) = section.tables
    assert markdown_of(table).partition("\n\n")[2].strip() in PAGE.read_text(encoding="utf-8")
    gained = {row[0]: float(row[3]) for row in table.rows}
    assert gained["not"] < 1.0 < gained["little"] < 5.0 < gained["much"]
    assert all(abs(float(row[2]) - float(row[3])) < 1.0 for row in table.rows)
