"""Tests of timing."""

from collections.abc import Callable

import pytest
from bench import timing
from bench.timing import Timing, environment, interleaved


def test_both_sides_take_turns() -> None:
    """A change of the machine's speed meets all alike."""
    called: list[str] = []

    def action(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    timings = interleaved({"a": action("a"), "b": action("b")}, 3, {"b": 2})
    assert called == ["a", "b", "b"] * 3
    assert [len(timings[name].seconds) for name in "ab"] == [3, 6]


def test_the_time_is_that_of_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a clock shows before is taken from what it shows after."""
    clock = iter([1.0, 4.0, 10.0, 11.0])
    monkeypatch.setattr(timing, "process_time", lambda: next(clock))
    assert interleaved({"a": lambda: None}, 2)["a"].seconds == (3.0, 1.0)


def test_a_timing_is_summed_up() -> None:
    """Median and minimum; one slow repeat counts for little."""
    assert Timing((3.0, 1.0, 99.0)).to_dict() == {
        "median_seconds": 3.0,
        "minimum_seconds": 1.0,
        "repeats": 3,
    }


def test_the_environment_names_versions_and_processor() -> None:
    """Enough to explain a difference, and no name of a machine."""
    found = environment(["numpy"])
    assert set(found) == {"versions", "command", "date", "device"}
    assert " cores of " in found["device"]
