"""The page on performance shows what the committed results of the benchmarks hold."""

import json
import re
from typing import Any

import pytest
from docs.pages import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")
FILES = (ROOT / "docs" / "performance").glob("*.json")
RESULTS: dict[str, Any] = {path.stem: json.loads(path.read_text("utf-8")) for path in FILES}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_section_shows_what_was_measured(name: str) -> None:
    """Each benchmark of the page has its command, and whole tables as its results have them."""
    _, _, section = PAGE.partition(f"{RESULTS[name]['config']['command']}\n")
    shown = re.findall(r"^.+\n\n(?:\|.*\n)+", section.partition("\n## ")[0] + "\n", re.MULTILINE)
    assert shown
    assert {table.strip() for table in shown} <= set(RESULTS[name]["tables"])


def test_a_bound_that_is_missed_is_named() -> None:
    """The page names each bound that is missed, and none that is kept."""
    bounds = {name: of for found in RESULTS.values() for name, of in found["wanted"].items()}
    named = {name for name in bounds if f"`{name}`" in PAGE}
    assert named == {name for name, of in bounds.items() if not of["kept"]}
