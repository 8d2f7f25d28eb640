"""When balancing helps: what the page promises, incomplete federations, and the picture."""

import re
from collections import defaultdict

import numpy as np
from docs.pages import ROOT
from matplotlib.figure import Figure
from reproduction_results import rows, section

from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings

FULL = PaperSettings(scale="full")
CELLS = EXPERIMENTS["when"].cells(FULL)


def test_gains_are_certain_to_half_a_point() -> None:
    """The page's standard errors are at most half a point, with the seeds of each federation."""
    page = (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8")
    table = page.partition("<!-- table of when 1 -->\n\n")[2].partition("\n\n")[0]
    errors = [float(error) for error in re.findall(r"±(\d+\.\d)", table)]
    assert len(errors) == 27 * 2
    assert max(errors) <= 0.5


def test_a_federation_without_all_methods_is_left_out() -> None:
    """A federation is left out while a method shares no seed with Dubhe."""
    made = section("when", FULL, CELLS[:3])
    assert list(rows(made.tables[0])) == ["rho 1, EMD_avg 0.5"]
    made = section("when", FULL, CELLS[:2])
    assert not made.tables
    assert not made.pictures


def test_lines_tell_rho_and_the_other_method_apart() -> None:
    """Lines differ by colour and marker for rho, and by dashes for the other method."""
    looks, limits = defaultdict(set), set()
    (picture,) = section("when", FULL).pictures
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
