"""The page that sets ways of selecting side by side holds what was measured, and nothing else."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from statistics import fmean

import pytest
from docs.pages import ROOT
from matplotlib.figure import Figure

from dubhe_lab.bench.measuring import markdown_of
from dubhe_lab.experiments.settings import SEEING_LOSSES
from dubhe_lab.paper.cells import CellStore
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.report.picture import Panel
from dubhe_lab.report.table import Table

FOLDER = ROOT / "docs" / "side_by_side"
PAGE = (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOLD = " ".join(README.split())
OPTIONS = PaperSettings(scale="full", datasets=("MNIST", "CIFAR10"))
CELLS = EXPERIMENTS["leaderboard"].cells(OPTIONS)
FOUND = CellStore(FOLDER / "cells").load_all(CELLS)


@cache
def tables() -> Sequence[Table]:
    """Return what the leaderboard shows."""
    (section,) = sections(["leaderboard"], OPTIONS, FOUND)
    return section.tables


def test_the_tables_are_those_of_the_measurements() -> None:
    """Each row, of each optimizer that was measured; no file is of another measurement."""
    assert len(FOUND) == len(list(FOLDER.glob("cells/training/*.json")))
    for table in tables():
        assert markdown_of(table).partition("\n\n")[2] in PAGE


@pytest.mark.parametrize("name", ["natural", "instead", "when", "determination"])
def test_the_tables_of_further_experiments_are_those_of_their_cells(name: str) -> None:
    """Each row of what was measured; no file is of another measurement."""
    cells = EXPERIMENTS[name].cells(OPTIONS)
    found = CellStore(FOLDER / "cells").load_all(cells)
    assert len(found) == len(list(FOLDER.glob(f"cells/{name}/*.json")))
    for section in sections([name], OPTIONS, found):
        for table in section.tables:
            assert markdown_of(table).partition("\n\n")[2] in PAGE


def test_the_readme_tells_what_the_default_reaches_on_digits() -> None:
    """README compares today's default with greedy selection by the cells of determination."""
    cells = EXPERIMENTS["determination"].cells(OPTIONS)
    found = CellStore(FOLDER / "cells").load_all(cells)
    (section,) = sections(["determination"], OPTIONS, found)
    mean = {row[0]: [cell.partition(" ")[0] for cell in row[1:]] for row in section.tables[0].rows}
    dubhe, greedy = mean["Dubhe"], mean["greedy (oracle)"]
    with_sgd = f"on digits, SGD {dubhe[0]} % (greedy {greedy[0]})"
    told = f"{with_sgd}, with momentum {dubhe[1]} % ({greedy[1]})"
    assert told in README


def test_no_two_methods_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one look in all panels of a picture, which share a legend."""
    looks = defaultdict(set)

    def draw(panels: Sequence[Panel]) -> bytes:
        for panel in panels:
            axes = Figure().subplots()
            panel(axes)
            for line in axes.lines:
                looks[str(line.get_label())].add((line.get_color(), line.get_marker()))
        return b""

    monkeypatch.setattr("dubhe_lab.paper.leaderboard.picture", draw)
    sections(["leaderboard"], OPTIONS, FOUND)
    shown = [look for label, (look, *others) in looks.items() if label[0] != "_" if not others]
    named = [label for label in looks if label[0] != "_"]
    assert len(set(shown)) == len(named) >= 8


def test_all_seeds_of_sgd_are_there() -> None:
    """Those of each method that was trained, with momentum and without it."""
    missing = {
        cell.config["method"]
        for cell in CELLS
        if cell.config["optimizer"] == "sgd" and cell.key not in FOUND
    }
    assert missing <= set(SEEING_LOSSES)
    measured = {cell.config["method"] for cell in CELLS if cell.key in FOUND}
    assert measured.isdisjoint(missing)


@pytest.mark.parametrize("case", ["balanced data", "K near N", "few clients"])
def test_where_there_is_little_to_gain(case: str) -> None:
    """The page and the README tell what was measured."""
    of = json.loads((FOLDER / "little.json").read_text(encoding="utf-8"))["cases"][case]
    seeds = {name: of[name].values() for name in ("random", "dubhe", "greedy")}
    mean = {name: fmean(s["final_accuracy"] for s in each) for name, each in seeds.items()}
    accuracies = " | ".join(f"{value:.1%}" for value in mean.values())
    assert f"| {case} | `{of['options']}` | {accuracies} |" in PAGE
    told = f"{mean['random']:.1%} at random, {mean['dubhe']:.1%} with Dubhe".replace("%", " %")
    told += f", {mean['greedy']:.1%} greedy".replace("%", " %") if case == "few clients" else ""
    assert told in TOLD


def test_the_readme_begins_with_the_leaderboard() -> None:
    """The table covers all optimizers, and the sentences agree with it."""
    summary, *of_optimizers = tables()
    assert markdown_of(summary).partition("\n\n")[2].strip() in README
    mean = {row[0]: [float(value) for value in row[1:4]] for row in summary.rows}
    sgd, momentum, adam = (
        dubhe - random for dubhe, random in zip(mean["Dubhe"], mean["random"], strict=True)
    )
    lead = f"{sgd:.0f} points with SGD, {momentum:.1f} with server momentum, {adam:.0f} with Adam."
    assert f"Dubhe's lead over random selection depends on the optimizer: {lead}" in TOLD
    assert lead in PAGE
    with_adam = {row[0]: row[1] for row in of_optimizers[2].rows}["Dubhe, local skew 1"]
    assert f"{mean['Dubhe'][2]} % -> {with_adam.partition('±')[0]} %" in TOLD


def test_the_readme_tells_of_cifar_what_was_measured() -> None:
    """Accuracy over the last quarter of the rounds, of each method."""
    table, _longer = (table for table in tables() if "CIFAR" in table.caption)
    found = {row[0]: row[1] for row in table.rows}
    told = (
        f"random selection {found['random']} %, Dubhe {found['Dubhe']} %, with local skew 1 "
        f"{found['Dubhe, local skew 1']} %, greedy {found['greedy (oracle)']} %"
    )
    assert told in TOLD


@pytest.mark.parametrize("emd", ["1.5", "1.0", "0.5"])
def test_the_digits_are_those_of_ten_seeds(emd: str) -> None:
    """Accuracy of each method, the share of greedy's gain, and the clients that trained."""
    of = json.loads((FOLDER / "digits.json").read_text(encoding="utf-8"))["emd"][emd]
    assert {len(seeds) for seeds in of.values()} == {10}
    mean = {name: fmean(one["final_accuracy"] for one in seeds) for name, seeds in of.items()}
    reached = {name: fmean(one["coverage"] for one in seeds) for name, seeds in of.items()}
    gain = (mean["dubhe"] - mean["random"]) / (mean["greedy"] - mean["random"])
    accuracies = " | ".join(f"{mean[name]:.1%}" for name in ("random", "dubhe", "greedy"))
    clients = " | ".join(f"{reached[name]:.0%}" for name in ("dubhe", "greedy"))
    assert f"| {emd} | {accuracies} | {gain:.0%} | {clients} |" in PAGE
