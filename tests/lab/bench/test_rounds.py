"""Tests of the training-rounds benchmark."""

import pytest
from command_line import call

from dubhe_lab.bench import rounds
from dubhe_lab.bench.rounds import RoundsSettings
from dubhe_lab.training.client import TorchClient


def test_the_first_round_is_not_timed() -> None:
    """Each engine's rounds are timed, except for one that warms up."""
    small = {"num_clients": 2, "num_steps": 1, "num_rounds": 2, "repeats": 2}
    content = rounds.bench_rounds(RoundsSettings(**small, ray=False, pfl=False)).to_dict()
    seconds = content["measured"]["seconds"]
    assert {name: len(of) for name, of in seconds.items()} == {"a plain loop": 4, "inprocess": 4}
    assert content["inprocess_rounds_per_second"] > 0


def test_the_rate_comes_from_the_median_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate comes from the median round, and an engine's rate is shown relative to the loop."""
    monkeypatch.setattr(rounds, "_plain_loop", lambda _: [1.0, 2.0, 9.0])
    monkeypatch.setattr(rounds, "_flower", lambda _, __: [4.0])
    found = rounds.bench_rounds(RoundsSettings(repeats=1, ray=True, pfl=False))
    assert found.figures["plain_loop_rounds_per_second"] == pytest.approx(0.5)
    assert found.figures["ray_rounds_per_second"] == pytest.approx(0.25)
    assert [row[2] for row in found.tables[0].rows] == ["100%", "50%", "50%"]


def test_a_client_that_fails_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing client ends the benchmark, since a round without training would look fast."""

    def fit(self: TorchClient, *_: object) -> None:
        raise ValueError("no data")

    monkeypatch.setattr(TorchClient, "fit", fit)
    ended = call("bench", "rounds", "--quick", "--no-ray", "--no-pfl")
    assert ended.code == 2
    assert "3 of 3 clients failed to train" in ended.err
