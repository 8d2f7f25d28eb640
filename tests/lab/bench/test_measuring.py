"""Tests of timing and of benchmark results."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dubhe_lab.bench import measuring
from dubhe_lab.bench.measuring import BenchResults, interleaved
from dubhe_lab.report.table import Table


def test_actions_are_timed_in_turns() -> None:
    """Actions are timed in turns, so that a slow phase of the machine affects all alike."""
    called: list[str] = []

    def action(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    timings = interleaved({"a": action("a"), "b": action("b")}, 3, {"b": 2})
    assert called == ["a", "b", "b"] * 3
    assert [len(timings[name]) for name in "ab"] == [3, 6]


def test_the_time_of_an_action_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of an action is the difference of the clock before and after it."""
    clock = iter([1.0, 4.0, 10.0, 11.0])
    monkeypatch.setattr(measuring, "process_time", lambda: next(clock))
    assert interleaved({"a": lambda: None}, 2)["a"] == [3.0, 1.0]


RESULTS = BenchResults(
    config={"command": "dubhe bench crypto", "date": "today"},
    figures={"ratio": 150.0, "less": 149.9, "most": 1.1, "over": 1.2, "free": 7.0},
    bounds={
        "ratio": ("at least", 150), "less": ("at least", 150),
        "most": ("at most", 1.1), "over": ("at most", 1.1), "elsewhere": ("at most", 1),
    },
    measured={"seconds": [1.0]},
    tables=[Table("Times", ("", "ms"), [("encrypt", "2.3")])],
)  # fmt: skip


def test_figures_are_at_the_top_of_the_file(tmp_path: Path) -> None:
    """The file holds each figure under its own name, and the bounds under "wanted"."""
    RESULTS.save(tmp_path / "new" / "crypto.json")
    assert json.loads((tmp_path / "new" / "crypto.json").read_text(encoding="utf-8")) == {
        **RESULTS.figures,
        "wanted": {
            "ratio": {"bound": "at least 150", "kept": True},
            "less": {"bound": "at least 150", "kept": False},
            "most": {"bound": "at most 1.1", "kept": True},
            "over": {"bound": "at most 1.1", "kept": False},
        },
        "measured": {"seconds": [1.0]},
        "tables": ["Times\n\n|  | ms |\n|---|---|\n| encrypt | 2.3 |"],
        "config": {"command": "dubhe bench crypto", "date": "today"},
    }
