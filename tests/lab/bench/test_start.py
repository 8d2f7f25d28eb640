"""Tests of the benchmark of what a SuperNode starts."""

from dubhe_lab.bench.start import StartSettings, bench_start


def test_both_parts_are_timed() -> None:
    """In a process of its own, though all is imported here."""
    content = bench_start(StartSettings(repeats=1)).to_dict()
    assert content["flower_seconds"] > 0 < content["dubhe_seconds"]
    assert content["wanted"]["dubhe_seconds"]["bound"] == "at most 0.3"
