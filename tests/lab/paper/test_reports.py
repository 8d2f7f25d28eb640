"""Every experiment reports its results next to the paper's values."""

from io import StringIO

import pytest
from matplotlib.figure import Figure
from reproduction_results import finished
from rich.console import Console

from dubhe_lab.paper.commands import EXPERIMENTS, remarks, sections
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.paper.page import Section


def section(name: str, options: PaperSettings) -> Section:
    """Return an experiment's section for all its cells."""
    (made,) = sections([name], options, finished(EXPERIMENTS[name].cells(options)))
    return made


def row(made: Section, first: str, table: int = 0) -> list[str]:
    """Return the table row whose first cell is `first`."""
    return list(next(of for of in made.tables[table].rows if of[0] == first))


# A test of the docs page covers all 200 federations of the verdict.
SCALES = [(name, of) for name in EXPERIMENTS for of in ("small", "full")]
SCALES.remove(("verdict", "full"))


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_experiment_reports_all_its_cells(name: str, scale: str) -> None:
    """All rows have a cell per heading, and all experiments but four have pictures."""
    made = section(name, PaperSettings(scale=scale, seeds=(0, 1)))
    assert made.name == name
    for table in made.tables:
        assert table.rows
        assert {len(of) for of in table.rows} == {len(table.columns)}
    assert bool(made.pictures) == (name not in {"overhead", "natural", "instead", "epochs"})
    for picture in made.pictures:
        for draw in picture.panels:
            draw(Figure().subplots())


def test_table_2_has_the_papers_values() -> None:
    """Table 2 shows the paper's distances, accuracies and shares of greedy's gain."""
    made = section("table2", PaperSettings(scale="full", datasets=("MNIST",)))
    assert row(made, "dubhe-paper, H=20")[1:4] == ["0.1750", "0.300 ± 0.000", "0.300 ± 0.000"]
    assert row(made, "greedy")[1] == "0.0144"
    best = row(made, "greedy", table=1)
    assert best[1] == "96.94"
    assert best[3:] == ["100%", "100%", "100.0%"]
    assert row(made, "random", table=1)[3] == "0%"
    assert row(made, "dubhe-paper, H=10", table=1)[5] == "68.8%"


def test_each_seed_is_completed_before_the_next() -> None:
    """A seed's methods all come before the next seed, so that an interrupted run is usable."""
    options = PaperSettings(scale="full", datasets=("MNIST",), tries=(1, 10), seeds=(4, 5))
    trained = [c for c in EXPERIMENTS["table2"].cells(options) if c.kind == "training"]
    assert [cell.config["seed"] for cell in trained] == [4] * 5 + [5] * 5


def test_the_reduction_is_relative_to_random_selection() -> None:
    """The reduction compares means with random selection."""
    made = section("unbiasedness", PaperSettings())
    assert row(made, "10")[-2:] == ["50.0%", "50.0%"]


def test_the_registry_names_the_papers_empty_categories() -> None:
    """Slot 9 is class 9, slot 54 is classes 8 and 9, slot 55 has no dominating class."""
    made = section("registry", PaperSettings())
    assert row(made, "clients in (9)")[1:] == ["0", "9", "9"]
    assert row(made, "clients in (8, 9)")[2] == "54"
    assert row(made, "clients without a dominating class")[2] == "55"
    assert row(made, "8", table=1)[1:3] == ["0.0753", "0.0400"]


def test_finished_cells_are_reported_alone() -> None:
    """Training experiments report the cells they have, and remarks count the missing ones."""
    options = PaperSettings()
    cells = EXPERIMENTS["averages"].cells(options)
    (made,) = sections(["averages"], options, finished(cells[:1]))
    assert sum(bool(of[1]) for of in made.tables[0].rows) == 1
    cells = EXPERIMENTS["unbiasedness"].cells(options)
    assert not sections(["unbiasedness"], options, finished(cells[:2]))
    scale, left = remarks(["unbiasedness"], options, finished(cells[:2]))
    assert scale.startswith("Small scale")
    assert f"{len(cells) - 2} of {len(cells)} measurements of unbiasedness" in left
    assert not remarks(
        ["unbiasedness"],
        PaperSettings(scale="full"),
        finished(EXPERIMENTS["unbiasedness"].cells(PaperSettings(scale="full"))),
    )


def test_experiments_share_cells() -> None:
    """All training experiments share the cell of random selection at 10/1.5."""
    options = PaperSettings(scale="full")
    keys = [
        {c.key for c in EXPERIMENTS[name].cells(options) if c.kind == "training"}
        for name in ("averages", "table2", "motivation", "curves")
    ]
    assert all(keys[0] & other for other in keys[1:])


def test_the_leaderboard_shows_what_users_decide_by() -> None:
    """The leaderboard shows accuracy, rounds to target, coverage and costs in 80 columns."""
    options = PaperSettings(scale="full", datasets=("MNIST",), seeds=(0, 1))
    found = finished(EXPERIMENTS["leaderboard"].cells(options))
    for cell in EXPERIMENTS["leaderboard"].cells(options):
        (method,) = found[cell.key]["result"]["methods"].values()
        best = 0.89 if "random" in cell.name else 0.9 + cell.config["seed"] / 20
        method["accuracy"] = [0.1, None, 0.5, best, best]
        method["evaluations"] = 1600 if "powd" in cell.name else 0  # in forty rounds
    (made,) = sections(["leaderboard"], options, found)
    assert row(made, "random")[1:4] == ["89.0"] * 3
    assert row(made, "random", table=1)[1:3] == ["89.0±0.0", "0 of 2"]
    assert row(made, "greedy (oracle)", table=1)[1:3] == ["92.5±2.5", "3"]
    assert row(made, "Dubhe", table=1)[-2:] == ["yes/no", "encrypt"]
    assert row(made, "Power-of-Choice", table=1)[-2:] == ["losses", "40 evals"]
    assert row(made, "greedy (oracle)")[-2:] == ["labels", "none"]
    for table in made.tables:
        screen = StringIO()
        Console(file=screen, width=80).print(table.for_terminal())
        of_methods = [line for line in screen.getvalue().splitlines() if "(oracle)" in line]
        assert len(of_methods) == 4
        assert "…" not in screen.getvalue()
        assert all(of[-1] in line for of in table.rows for line in of_methods if of[0] in line)
    own = [{of[0] for of in table.rows} for table in made.tables]
    assert own[0] == own[1] == own[2] == own[3] - {"Dubhe, local skew 1"} == own[4]
    assert len(made.pictures) == 2
    with_adam = [c for c in EXPERIMENTS["leaderboard"].cells(options) if "adam" in str(c.config)]
    del found[with_adam[0].key]  # a seed of random selection
    (partial,) = sections(["leaderboard"], options, found)
    assert row(partial, "random")[1:4] == ["89.0", "89.0", ""]
    del found[EXPERIMENTS["leaderboard"].cells(options)[0].key]
    (partial,) = sections(["leaderboard"], options, found)
    assert {of[0] for of in partial.tables[0].rows} == own[0] - {"random"}
