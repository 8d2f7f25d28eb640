"""Every experiment reports what is finished.

`tests/docs/test_build.py` compares the tables that the documentation shows with the stored cells.
"""

from io import StringIO

import pytest
from matplotlib.figure import Figure
from reproduction_results import rows, section
from rich.console import Console

from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings

# A test of the docs page covers all 200 federations of the verdict.
SCALES = [(name, of) for name in EXPERIMENTS for of in ("small", "full")]
SCALES.remove(("verdict", "full"))


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_experiment_reports_all_its_cells(name: str, scale: str) -> None:
    """All rows have a cell per heading, and all experiments but four have pictures."""
    made = section(name, PaperSettings(scale=scale, seeds=(0, 1)))
    for table in made.tables:
        assert table.rows
        assert {len(of) for of in table.rows} == {len(table.columns)}
    assert bool(made.pictures) == (name not in {"overhead", "natural", "instead", "epochs"})
    for picture in made.pictures:
        for draw in picture.panels:
            draw(Figure().subplots())


def test_each_seed_is_completed_before_the_next() -> None:
    """A seed's methods all come before the next seed, so that an interrupted run is usable."""
    options = PaperSettings(scale="full", datasets=("MNIST",), tries=(1, 10), seeds=(4, 5))
    trained = [c for c in EXPERIMENTS["table2"].cells(options) if c.kind == "training"]
    assert [cell.config["seed"] for cell in trained] == [4] * 5 + [5] * 5


def test_finished_cells_are_reported_alone() -> None:
    """Training experiments report the cells they have; some others wait for all of theirs."""
    options = PaperSettings()
    cells = EXPERIMENTS["femnist"].cells(options)
    (table,) = section("femnist", options, cells[:1]).tables
    assert [of[1] for of in table.rows] == ["0.310", "0.364", "", "0.374"]
    assert [bool(of[2]) for of in table.rows] == [True, False, False, False]
    (key, *_) = (cell.key for cell in EXPERIMENTS["unbiasedness"].cells(options))
    assert EXPERIMENTS["unbiasedness"].section(options, {key: {}}) is None


@pytest.mark.parametrize("name", ["leaderboard", "natural"])
def test_an_oracles_row_fits_a_terminal(name: str) -> None:
    """The row is one line of 80 columns, and nothing is cut off."""
    made = section(name, PaperSettings(scale="full", datasets=("MNIST",), seeds=(0, 1)))
    for table in made.tables:
        screen = StringIO()
        Console(file=screen, width=80).print(table.for_terminal())
        assert "…" not in screen.getvalue()
        lines = [line.strip() for line in screen.getvalue().splitlines()]
        for first, *_, last in table.rows:
            if "(oracle)" in first:
                assert any(line.startswith(first) and line.endswith(last) for line in lines)


def test_a_mean_needs_all_seeds() -> None:
    """A method without some seed has no mean; if the seed is one of SGD's, it has no row."""
    options = PaperSettings(scale="full", datasets=("MNIST",), seeds=(0, 1))
    cells = EXPERIMENTS["leaderboard"].cells(options)
    cells.remove(next(cell for cell in cells if cell.config["optimizer"] == "adam"))
    made = section("leaderboard", options, cells)
    assert list(map(bool, rows(made.tables[0])["random"][:3])) == [True, True, False]
    fewer = section("leaderboard", options, cells[1:])
    assert rows(made.tables[0]).keys() - rows(fewer.tables[0]).keys() == {"random"}


def test_a_method_without_cells_has_no_row() -> None:
    """No table has a method that is not finished."""
    options = PaperSettings(scale="full", seeds=(0,))
    cells = EXPERIMENTS["digits"].cells(options)
    there = [cell for cell in cells if cell.config["method"] != "greedy"]
    for table in section("digits", options, there).tables:
        assert "greedy (oracle)" not in rows(table)
        assert "Dubhe, H=20" in rows(table)


def test_federations_without_cells_have_no_table() -> None:
    """And methods without cells have no row; the caption has the study's verdict."""
    options = PaperSettings(scale="full")
    cells = EXPERIMENTS["natural"].cells(options)
    there = [cell for cell in cells if "chem97" in cell.name and "powd" not in cell.name]
    (table,) = section("natural", options, there).tables
    assert "Does Dubhe help? The study says: much" in table.caption
    assert "Power-of-Choice" not in rows(table)


def test_seeds_without_a_pair_do_not_count() -> None:
    """A gain is over the same seed, so a seed of one method alone is left out."""
    options = PaperSettings(scale="full", seeds=(0, 1))
    random, dubhe, *_, other = EXPERIMENTS["instead"].cells(options)[: 9 * 2 + 2]
    assert (dubhe.config["method"], other.config) == ("dubhe", {**dubhe.config, "seed": 1})
    made = section("instead", options, [random, dubhe, other])
    assert made.tables[0].rows == [["nothing", "1", "+0.0", "+20.4"]]
    assert "Random selection alone reaches: 58.5 %." in made.paragraphs[0]
