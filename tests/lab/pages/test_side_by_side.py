"""The page that sets methods side by side, and the README, tell what was measured."""

import json
from collections import defaultdict
from runpy import run_path

import pytest
from docs.pages import ROOT
from matplotlib.figure import Figure
from reproduction_results import rows

from dubhe_flwr.errors import DataError
from dubhe_lab.paper.commands import EXPERIMENTS

FOLDER = ROOT / "docs" / "side_by_side"
PAGE = (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8")
TOLD = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
DOCS = run_path(str(ROOT / "docs" / "tables.py"))
SHOWN = ("digits", "instead", "when", "natural", "leaderboard")


def test_every_measurement_belongs_to_an_experiment() -> None:
    """Each file is a cell of an experiment on the page."""
    keys = {cell.key for name in SHOWN for cell in EXPERIMENTS[name].cells(DOCS["MEASURED"])}
    files = (path.relative_to(FOLDER / "cells") for path in FOLDER.glob("cells/*/*.json"))
    unused = {path.with_suffix("").as_posix() for path in files} - keys
    assert not unused, "no experiment finds these; is a new setting missing in `_LATER`?"


def test_a_table_without_measurements_says_what_to_do() -> None:
    """A new setting changes the keys of stored cells, unless `_LATER` has it."""
    with pytest.raises(DataError, match=r"no stored cell of registry; .* `_LATER`"):
        DOCS["filled"]("<!-- table of registry 1 -->\n")


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_shows_every_table(name: str) -> None:
    """`test_build` compares the tables' content."""
    for number, _ in enumerate(DOCS["measured"](name).tables, start=1):
        assert f"<!-- table of {name} {number} -->" in PAGE


@pytest.mark.parametrize("name", ["digits", "leaderboard"])
def test_no_two_methods_look_alike(name: str) -> None:
    """Each method has one look in all panels of a picture, which share a legend."""
    looks = defaultdict(set)
    for picture in DOCS["measured"](name).pictures:
        for draw in picture.panels:
            axes = Figure().subplots()
            draw(axes)
            for line in axes.lines:
                looks[str(line.get_label())].add((line.get_color(), line.get_marker()))
    shown = [look for label, (look, *others) in looks.items() if label[0] != "_" if not others]
    named = [label for label in looks if label[0] != "_"]
    assert len(set(shown)) == len(named) >= 5


def test_the_readme_tells_how_much_dubhe_gains() -> None:
    """The lead over random selection with each optimizer, and what an agent adds."""
    shown = rows(DOCS["measured"]("digits").tables[0])
    gains = [
        float(own) - float(random)
        for own, random in zip(shown["Dubhe"][:3], shown["random"][:3], strict=True)
    ]
    lead = "{:.0f} points with SGD, {:.1f} with server momentum, {:.0f} with Adam".format(*gains)
    assert f"Dubhe's lead over random selection depends on the optimizer: {lead}" in TOLD
    assert f"SGD {shown['Dubhe'][0]} % -> {shown['Dubhe, H=20'][0]} %" in TOLD


def test_the_readme_and_the_study_tell_where_dubhe_hurts() -> None:
    """Both say what Dubhe costs and gains on MovieLens, whose test has the federation's mix."""
    (table,) = (each for each in DOCS["measured"]("natural").tables if "MovieLens" in each.caption)
    shown = rows(table)
    (random, of_random), (dubhe, of_dubhe), (own_mix, _) = (
        [cell.partition("±")[0] for cell in shown[name][:2]]
        for name in ("random", "Dubhe", "Dubhe, own mix")
    )
    lost = float(random) - float(dubhe)
    assert f"on MovieLens, plain accuracy drops by {lost:.0f} points." in TOLD
    page = " ".join((ROOT / "docs" / "howto" / "my_federation.md").read_text("utf-8").split())
    assert f"lowers plain accuracy from {random} to {dubhe} %" in page
    assert f"balanced accuracy only from {of_random} to {of_dubhe} %" in page
    assert f'`Prices(target="own")` keeps plain accuracy at {own_mix} %' in page


def test_the_readme_says_which_method_beats_dubhe() -> None:
    """Of the methods that see no labels, Active FL leads with Adam, and none with SGD."""
    shown = rows(DOCS["measured"]("digits").tables[0])
    sighted = {name: row for name, row in shown.items() if row[4] == "losses"}
    for optimizer, beaten_by in enumerate([set(), set(), {"Active FL"}]):
        own = float(shown["Dubhe"][optimizer])
        better = {name for name, row in sighted.items() if float(row[optimizer]) > own}
        assert better == beaten_by
    assert "With Adam, Active FL beats Dubhe." in TOLD


def test_the_pages_tell_what_an_agent_adds() -> None:
    """The points that `Tries(20)` gains, from the table of paired differences."""
    gained = rows(DOCS["measured"]("digits").tables[1])["Dubhe, H=20"]
    sgd, momentum, adam = (float(cell.partition("±")[0]) for cell in gained)
    page = " ".join((ROOT / "docs" / "howto" / "choose_settings.md").read_text("utf-8").split())
    assert abs(momentum) < 0.15
    told = (
        f"`Tries(20)` added {sgd} points of accuracy with plain SGD, {adam} with Adam, and nothing"
    )
    assert told in page


def test_the_page_describes_the_natural_federations() -> None:
    """Their skew, and the study's verdict on each."""
    told = " ".join(PAGE.split())
    words = {"not": '"hardly" helps', "little": 'helps "a little"', "much": 'helps "a lot"'}
    files = sorted(FOLDER.glob("cells/natural/*-study-*.json"))
    assert len(files) == 3
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))["result"]
        verdict = f"The verdict of `dubhe study`: Dubhe {words[found['helps']]}"
        rho = f"{found['rho']:#.2g}".rstrip(".")
        assert f"(rho = {rho}, EMD_avg = {found['emd']:.2f}). {verdict}" in told
