"""When balancing helps: the federations compared, the table and the picture."""

import re
from collections import defaultdict
from functools import cache

import numpy as np
from docs.pages import ROOT
from matplotlib.figure import Figure
from reproduction_results import finished, rows

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings

FULL = PaperSettings(scale="full")


@cache
def cells() -> list[Cell]:
    """Return the experiment's cells, which take a second to be listed."""
    return EXPERIMENTS["when"].cells(FULL)


def test_every_federation_has_all_methods_and_seeds() -> None:
    """No federation is left out: each can be drawn. All methods share at least five seeds."""
    seeds: dict[tuple[float, ...], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for config in (cell.config for cell in cells()):
        place = tuple(config[name] for name in ("rho", "emd", "num_participants"))
        seeds[place][config["method"]].add(config["seed"])
    assert len(seeds) == 27
    for of_methods in seeds.values():
        random, powd, dubhe = (of_methods[name] for name in ("random", "powd", "dubhe"))
        assert random == powd == dubhe >= set(range(5))


def test_no_gain_on_the_page_is_uncertain_by_half_a_point() -> None:
    """The page's standard errors are below half a point, with the seeds of each federation."""
    page = (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8")
    table = page.partition("<!-- table of when 1 -->\n\n")[2].partition("\n\n")[0]
    errors = [float(error) for error in re.findall(r"±(\d+\.\d)", table)]
    assert len(errors) == 27 * 2
    assert max(errors) < 0.5


def points(cell: Cell) -> float:
    """Return 60 % at random, 65 % with Power-of-Choice, and 60 % + 2 rho with Dubhe."""
    usual = {"random": 60.0, "powd": 65.0}
    return float(usual.get(cell.config["method"], 60 + 2 * cell.config["rho"]))


def test_a_row_for_each_federation() -> None:
    """Each federation has a row with Dubhe's gain over both methods, paired by seed."""
    (made,) = sections(["when"], FULL, finished(cells(), points))
    (table,) = made.tables
    assert len(table.rows) == 27
    assert table.rows[0] == ["rho 1, EMD_avg 0.5", "5%", "+2.0±0.0", "-3.0±0.0"]
    assert table.rows[-1] == ["rho 10, EMD_avg 1.5", "40%", "+20.0±0.0", "+15.0±0.0"]


def test_a_federation_without_all_methods_is_left_out() -> None:
    """A federation is left out while a method shares no seed with Dubhe."""
    (made,) = sections(["when"], FULL, finished(cells()[:3], points))
    assert list(rows(made.tables[0])) == ["rho 1, EMD_avg 0.5"]
    (made,) = sections(["when"], FULL, finished(cells()[:2], points))
    assert not made.tables
    assert not made.pictures


def test_lines_tell_rho_and_the_other_method_apart() -> None:
    """Lines differ by colour and marker for rho, and by dashes for the other method."""
    looks, limits = defaultdict(set), set()
    (made,) = sections(["when"], FULL, finished(cells(), points))
    (picture,) = made.pictures
    assert len(picture.panels) == 3
    for draw in picture.panels:
        axes = Figure().subplots()
        draw(axes)
        limits.add(axes.get_ylim())
        for line in axes.lines[:-1]:
            assert np.size(line.get_xdata()) == 3
            look = line.get_color(), line.get_marker(), line.get_linestyle()
            looks[str(line.get_label())].add(look)
    assert len(limits) == 1
    assert len(looks) == len({look for (look,) in looks.values()}) == 6
