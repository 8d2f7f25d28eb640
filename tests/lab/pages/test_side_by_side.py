"""The page that sets methods side by side, and the README, tell what was measured."""

import json
from collections import defaultdict

import pytest
from docs.pages import ROOT, tables
from matplotlib.figure import Figure
from reproduction_results import rows

from dubhe_flwr.errors import DataError
from dubhe_lab.paper.commands import EXPERIMENTS

FOLDER = ROOT / "docs" / "side_by_side"
PAGE = (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8")
TOLD = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
SHOWN = ("digits", "instead", "when", "natural", "leaderboard")


@pytest.mark.parametrize(("page", "shown"), [("side_by_side", SHOWN), ("noise", ("epochs",))])
def test_every_measurement_belongs_to_an_experiment(page: str, shown: tuple[str, ...]) -> None:
    """Each file is a cell of an experiment on the page."""
    keys = {cell.key for name in shown for cell in EXPERIMENTS[name].cells(tables()["MEASURED"])}
    folder = ROOT / "docs" / page / "cells"
    files = (path.relative_to(folder) for path in folder.glob("*/*.json"))
    unused = {path.with_suffix("").as_posix() for path in files} - keys
    assert not unused, "no experiment finds these; is a new setting missing in `_LATER`?"


def test_a_table_without_measurements_says_what_to_do() -> None:
    """A new setting changes the keys of stored cells, unless `_LATER` has it."""
    with pytest.raises(DataError, match=r"no stored cell of femnist; .* `_LATER`"):
        tables()["filled"]("<!-- table of femnist 1 -->\n")


def test_the_page_shows_every_table() -> None:
    """`test_build` compares the tables' content."""
    for name in SHOWN:
        for number, _ in enumerate(tables()["measured"](name).tables, start=1):
            assert f"<!-- table of {name} {number} -->" in PAGE


@pytest.mark.parametrize("name", ["digits", "leaderboard"])
def test_no_two_methods_look_alike(name: str) -> None:
    """Each method has one look in all panels of a picture, which share a legend."""
    looks = defaultdict(set)
    for picture in tables()["measured"](name).pictures:
        for draw in picture.panels:
            axes = Figure().subplots()
            draw(axes)
            for line in axes.lines:
                looks[str(line.get_label())].add((line.get_color(), line.get_marker()))
    shown = [look for label, (look, *others) in looks.items() if label[0] != "_" if not others]
    named = [label for label in looks if label[0] != "_"]
    assert len(set(shown)) == len(named) >= 5


def test_no_method_beats_dubhe_that_sees_no_labels() -> None:
    """With any optimizer, Dubhe is ahead of the methods that see losses."""
    shown = rows(tables()["measured"]("digits").tables[0])
    sighted = {name: row for name, row in shown.items() if row[4] == "losses"}
    for optimizer in range(3):
        own = float(shown["Dubhe"][optimizer])
        assert all(float(row[optimizer]) < own for row in sighted.values())


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
