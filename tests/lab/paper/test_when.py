"""When balancing helps: the federations compared, the table and the picture."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from reproduction_results import finished

from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.report.picture import Panel

FULL = PaperSettings(scale="full")
CELLS = EXPERIMENTS["when"].cells(FULL)


def test_every_federation_can_be_drawn_with_every_seed() -> None:
    """All federations can be drawn, with three methods and five seeds each."""
    assert len(CELLS) == len({cell.key for cell in CELLS}) == 27 * 3 * 5
    names = ("rho", "emd", "num_clients", "num_samples", "seed")
    drawn = {tuple(cell.config[name] for name in names) for cell in CELLS}
    assert len(drawn) == 9 * 5
    for values in drawn:
        given = dict(zip(names, values, strict=True))
        federation = CompareSettings.for_dataset("digits", **given).federation.draw("digits", 10)
        assert federation.emd == pytest.approx(given["emd"], abs=0.05)


def results() -> dict[str, Any]:
    """Return results: 60 % at random, 65 % with Power-of-Choice, and 60 % + 2 rho with Dubhe."""
    found = finished(CELLS)
    for cell in CELLS:
        (method,) = found[cell.key]["result"]["methods"].values()
        points = {"random": 60.0, "powd": 65.0, "dubhe": 60 + 2 * cell.config["rho"]}
        accuracy = points[cell.config["method"]] / 100
        method["accuracy"] = [accuracy] * len(method["accuracy"])
    return found


def test_a_row_for_each_federation() -> None:
    """Each federation has a row with Dubhe's gain over both methods, paired by seed."""
    (made,) = sections(["when"], FULL, results())
    (table,) = made.tables
    assert len(table.rows) == 27
    assert table.rows[0] == ["rho 1, EMD_avg 0.5", "5%", "+2.0±0.0", "-3.0±0.0"]
    assert table.rows[-1] == ["rho 10, EMD_avg 1.5", "40%", "+20.0±0.0", "+15.0±0.0"]


def test_a_federation_without_all_methods_is_left_out() -> None:
    """A federation is left out while a method shares no seed with Dubhe."""
    found = results()
    (made,) = sections(["when"], FULL, {c.key: found[c.key] for c in CELLS[:3]})
    assert [row[0] for row in made.tables[0].rows] == ["rho 1, EMD_avg 0.5"]
    (made,) = sections(["when"], FULL, {c.key: found[c.key] for c in CELLS[:2]})
    assert not made.tables
    assert not made.pictures


def test_lines_tell_rho_and_the_other_method_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines differ by colour and marker for rho, and by dashes for the other method."""
    looks, limits = defaultdict(set), set()

    def draw(panels: Sequence[Panel], **_size: float) -> bytes:
        assert len(panels) == 3
        for panel in panels:
            axes = Figure().subplots()
            panel(axes)
            limits.add(axes.get_ylim())
            for line in axes.lines[:-1]:
                assert np.size(line.get_xdata()) == 3
                look = line.get_color(), line.get_marker(), line.get_linestyle()
                looks[str(line.get_label())].add(look)
        return b""

    monkeypatch.setattr("dubhe_lab.paper.when.picture", draw)
    sections(["when"], FULL, results())
    assert len(limits) == 1
    assert len(looks) == len({look for (look,) in looks.values()}) == 6
