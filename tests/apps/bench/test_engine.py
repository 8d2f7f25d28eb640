"""Tests of the benchmark of the engines."""

import pytest
from bench import engine
from bench.engine import EngineSettings


def test_the_ratio_is_that_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1000 nodes at least 50 are wanted."""
    found = {
        "inprocess": {"message_seconds": 0.05, "round_seconds": 0.001},
        "ray": {"message_seconds": 10.0, "round_seconds": 0.2},
    }
    monkeypatch.setattr(engine, "_measure", lambda name, *_: found[name])
    content = engine.bench_engine(EngineSettings(num_nodes=1000, ray=True)).to_dict()
    assert content["messages_ratio_vs_ray"] == pytest.approx(200)
    assert content["ray_messages_per_second"] == pytest.approx(100)
    assert content["wanted"]["messages_ratio_vs_ray"] == {"bound": "at least 50", "kept": True}
