"""Tests of the figures that the encryption and engine benchmarks derive from their timings."""

import pytest
from command_line import call
from flwr.clientapp import ClientApp

from dubhe_lab.bench import crypto, engine
from dubhe_lab.bench.crypto import CryptoSettings
from dubhe_lab.bench.engine import EngineSettings


@pytest.mark.parametrize(("slow", "kept"), [(1.0, True), (1.2, False)])
def test_bounds_apply_to_keys_of_real_size(slow: float, kept: bool) -> None:
    """Figures are ratios of medians, checked against the bounds for keys of real size."""
    seconds = {
        "encrypt, element by element": 0.457, "encrypt": 0.0023 * slow, "floor": 0.00219,
        "decrypt, element by element": 0.127, "decrypt": 0.0023, "sum": 0.0046,
        "sum, products only": 0.004, "seal": 5e-5, "open": 0.003, "seal, key agreement only": 4e-5,
    }  # fmt: skip
    timings = {name: [value, value, 9.0] for name, value in seconds.items()}
    num_bytes = {"element by element": 28672, "packed": 512}
    content = crypto._results(CryptoSettings(), timings, num_bytes).to_dict()
    assert content["encrypt_over_floor"] == pytest.approx(1.05 * slow, rel=0.001)
    assert content["encrypt_ratio_vs_phe"] == pytest.approx(198.7 / slow, rel=0.001)
    assert content["server_us_per_client"] == pytest.approx(4.6)
    assert content["wanted"]["encrypt_over_floor"] == {"bound": "at most 1.1", "kept": kept}
    assert len(content["wanted"]) == 5


def test_the_ratio_compares_messages_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's ratio compares messages per second, and must be at least 50 at 1000 nodes."""
    found = {
        "inprocess": {"message_seconds": 0.05, "round_seconds": 0.001},
        "ray": {"message_seconds": 10.0, "round_seconds": 0.2},
    }
    monkeypatch.setattr(engine, "_measure", lambda name, *_: found[name])
    monkeypatch.setattr(engine, "_plain_calls", lambda _num_nodes: 0.01)
    content = engine.bench_engine(EngineSettings(num_nodes=1000, ray=True)).to_dict()
    assert content["messages_ratio_vs_ray"] == pytest.approx(200)
    assert content["ray_messages_per_second"] == pytest.approx(100)
    assert content["wanted"]["messages_ratio_vs_ray"] == {"bound": "at least 50", "kept": True}


def test_a_lost_message_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost message ends the benchmark, since it would look fast."""
    monkeypatch.setattr(engine, "_echo_app", ClientApp)
    ended = call("bench", "engine", "--num-nodes", "4", "--no-ray")
    assert ended.code == 2
    assert "The engine answered 0 of 4 messages" in ended.err
