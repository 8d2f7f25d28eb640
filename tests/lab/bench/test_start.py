"""Tests of the start-up benchmark."""

from importlib.util import find_spec

import pytest

from dubhe_lab.bench import start
from dubhe_lab.bench.start import StartSettings, bench_start


def test_both_parts_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both imports are timed in a new process, since this one has imported them already."""
    assert find_spec(start._FLOWER)
    assert find_spec(start._DUBHE)
    monkeypatch.setattr(start, "_FLOWER", "dubhe_flwr.errors")  # the real one takes seconds
    monkeypatch.setattr(start, "_DUBHE", "dubhe_flwr.core.codebook")
    content = bench_start(StartSettings(repeats=1)).to_dict()
    assert content["flower_seconds"] > 0 < content["dubhe_seconds"]
    assert content["wanted"]["dubhe_seconds"]["bound"] == "at most 0.3"
