"""Tests of the results of benchmarks."""

import json
from pathlib import Path

import pytest
from bench.results import BenchResults, Figure

from dubhe_flwr.report.section import Table

RESULTS = BenchResults(
    name="crypto",
    config={"command": "python apps/benchmarks crypto", "date": "today"},
    figures={"ratio": Figure(150.0, at_least=150), "over": Figure(1.2, at_most=1.1)},
    measured={"seconds": [1.0]},
    tables=[Table("Times", ("", "ms"), [("encrypt", "2.3")])],
)


def test_figures_stand_at_the_top_of_the_file(tmp_path: Path) -> None:
    """Under their own names, with what is wanted of them beside."""
    RESULTS.save(tmp_path / "new" / "crypto.json")
    content = json.loads((tmp_path / "new" / "crypto.json").read_text(encoding="utf-8"))
    assert content == {
        "ratio": 150.0,
        "over": 1.2,
        "wanted": {
            "ratio": {"bound": "at least 150", "kept": True},
            "over": {"bound": "at most 1.1", "kept": False},
        },
        "measured": {"seconds": [1.0]},
        "config": {"command": "python apps/benchmarks crypto", "date": "today"},
    }


@pytest.mark.parametrize(
    ("figure", "kept"),
    [
        (Figure(2.0), None),
        (Figure(2.0, at_least=2), True),
        (Figure(1.99, at_least=2), False),
        (Figure(2.0, at_most=2), True),
        (Figure(2.01, at_most=2), False),
    ],
)
def test_bounds_include_themselves(figure: Figure, kept: bool | None) -> None:
    """A figure at its bound keeps it."""
    assert figure.is_kept is kept


def test_markdown_has_the_command_and_all_tables() -> None:
    """As the documentation shows them."""
    assert RESULTS.markdown() == (
        "```bash\npython apps/benchmarks crypto\n```\n\n"
        "Times\n\n|  | ms |\n|---|---|\n| encrypt | 2.3 |\n\n"
        "Figures\n\n| figure | measured | wanted | kept |\n|---|---|---|---|\n"
        "| ratio | 150 | at least 150 | yes |\n| over | 1.2 | at most 1.1 | no |\n"
    )
