"""All methods on digits: the cells, and the gains over Dubhe's defaults."""

from typing import Any

import pytest
from reproduction_results import finished, rows

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import Method, PaperSettings
from dubhe_lab.paper.trainings import digits_cell

FULL = PaperSettings(scale="full")
CELLS = EXPERIMENTS["digits"].cells(FULL)


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        (Method("dubhe", tries=20), {"tries": 20}),
        (Method("dubhe", local_skew=0.3), {"local_skew": 0.3}),
    ],
    ids=str,
)
def test_each_variant_changes_only_its_own_settings(
    method: Method, changed: dict[str, Any]
) -> None:
    """Dubhe's variants differ from its defaults in what their names say."""
    usual, config = (digits_cell(of, 0, FULL).config for of in (Method("dubhe"), method))
    assert {name: value for name, value in config.items() if usual.get(name) != value} == changed


def test_gains_over_the_defaults_are_paired_by_seed() -> None:
    """Each method has its gain over Dubhe's defaults, in which a seed's effect cancels."""

    def points(cell: Cell) -> float:
        tried, seed = cell.config.get("tries") == 20, int(cell.config["seed"])
        return 80 + seed + (2 + seed % 2 if tried else 0)

    (made,) = sections(["digits"], FULL, finished(CELLS, points))
    summary, gains = map(rows, made.tables)
    assert len(CELLS) == len({cell.key for cell in CELLS}) == (len(gains) + 1) * 3 * 10
    assert summary["Dubhe"][:3] == ["84.5"] * 3
    assert gains["Dubhe, H=20"] == ["+2.5±0.2"] * 3
    assert summary.keys() - gains.keys() == {"Dubhe"}
    variants = {"local skew 0.3", "local skew 1"}
    assert gains.keys() - summary.keys() == {f"Dubhe, {name}" for name in variants}


def test_a_method_counts_only_once_it_is_finished() -> None:
    """A method without some of its cells has no row in the summary."""
    found = finished(cell for cell in CELLS if cell.config["method"] != "greedy")
    (made,) = sections(["digits"], FULL, found)
    for table in made.tables:
        assert "greedy (oracle)" not in rows(table)
        assert "random" in rows(table)


def test_experiments_share_their_trainings() -> None:
    """Random selection and Dubhe's defaults are trained once for all experiments on digits."""
    options = PaperSettings(scale="full", seeds=(0,))
    for name in ("random", "dubhe"):
        key = digits_cell(Method(name), 0, options).key
        for experiment in ("digits", "instead", "when"):
            assert key in {cell.key for cell in EXPERIMENTS[experiment].cells(options)}
