"""The page on performance shows what the committed results of the benchmarks hold."""

import json
import re
from statistics import fmean, median
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


def test_the_page_tells_how_rounds_on_real_nodes_compare() -> None:
    """Ratios, waits, mean times of the rounds, and the rounds that begin with a registration."""
    told, found = " ".join(PAGE.split()), RESULTS["deployment"]
    default, paper = (found[f"{kind}_round_ratio"] for kind in ("committee", "paillier"))
    assert 0.96 < default < 1.04
    longer = f"{100 * (paper - 1):.0f} % longer with the paper's rule"
    assert f"Later rounds take about as long as with random clients, or {longer}" in told
    runs = [found["measured"][kind] for kind in ("committee", "paillier")]
    assert 0.06 < max(wait for run in runs for wait in run["waited"][1:]) < 0.07
    assert all(median(run["waited"][1:]) < 0.01 for run in runs)
    assert "no round waited more than 0.07 s for its clients, and half of them no more than" in told
    rounds = runs[0]["rounds"]
    assert f"rounds 2 to 10 ({fmean(rounds[1:10]):.1f} s)" in told
    assert fmean(rounds[10:]) < found["random_round_seconds"]
    assert f"the others take {fmean(rounds[10:]):.1f} s, even less than with random" in told
    begins = [[at for at, of in enumerate(run["exchanges"], start=1) if of] for run in runs]
    assert begins == [[1, 11], [1, 9, 17]]


def test_a_bound_that_is_missed_is_named() -> None:
    """The page names each bound that is missed, and none that is kept."""
    bounds = {name: of for found in RESULTS.values() for name, of in found["wanted"].items()}
    named = {name for name in bounds if f"`{name}`" in PAGE}
    assert named == {name for name, of in bounds.items() if not of["kept"]}
