"""The page on performance shows what the committed results of the benchmarks hold."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "performance.md").read_text("utf-8")
RESULTS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in (DOCS / "performance").glob("*.json")
}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_table_is_that_of_the_results(name: str) -> None:
    """Each benchmark of the page has its command, and tables as they were measured."""
    _, _, section = PAGE.partition(RESULTS[name]["config"]["command"])
    section, _, _ = section.partition("\n## ")
    shown = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    measured = "\n".join(RESULTS[name]["tables"]) + "\n"
    assert shown
    for table in shown:
        assert table in measured


def test_every_table_is_measured() -> None:
    """But the first one, which says what to turn."""
    assert {"crypto", "protocol", "simulation", "scale", "rounds", "start"} <= RESULTS.keys()
    commands = re.findall(
        r"^\.uv/bin/uv run (?:--with pfl )?(python apps/benchmarks .*)", PAGE, re.MULTILINE
    )
    assert sorted(commands) == sorted(of["config"]["command"] for of in RESULTS.values())
