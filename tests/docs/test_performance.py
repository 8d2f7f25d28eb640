"""The page on performance shows what the committed results of the benchmarks hold."""

import json
import re

import pytest
from docs.pages import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")
SECTIONS = {
    of[1]: section + "\n"
    for section in PAGE.split("\n## ")
    if (of := re.search(r"--json docs/performance/(\w+).json", section))
}
FILES = {path.stem: path for path in (ROOT / "docs" / "performance").glob("*.json")}


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() | FILES))
def test_a_section_shows_what_was_measured(name: str) -> None:
    """Each benchmark of the page has its command, and tables as its results have them."""
    results = json.loads(FILES[name].read_text("utf-8"))
    assert f"uv run {results['config']['command']}\n" in SECTIONS[name].replace("--with pfl ", "")
    shown = re.findall(r"(?:^\|.*\n)+", SECTIONS[name], re.MULTILINE)
    assert shown
    for table in shown:
        assert table in "\n".join([*results["tables"], ""])
