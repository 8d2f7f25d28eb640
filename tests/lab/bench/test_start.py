"""Tests of the start-up benchmark."""

from dubhe_lab.bench.start import StartSettings, bench_start


def test_both_parts_are_timed() -> None:
    """Both imports are timed in a new process, since this one has imported them already."""
    content = bench_start(StartSettings(repeats=1)).to_dict()
    assert content["flower_seconds"] > 0 < content["dubhe_seconds"]
    assert content["wanted"]["dubhe_seconds"]["bound"] == "at most 0.3"
