"""Tests of the figures that the deployment benchmark derives from its timings, and of its end."""

import signal
from unittest.mock import MagicMock

import pytest

from dubhe_lab.bench import deployment
from dubhe_lab.bench.deployment import DeploymentSettings, bench_deployment


def test_first_rounds_are_left_out_of_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """First rounds, which wait for a registration, are left out of the means."""
    run = {
        "rounds": [90.0, 10.0, 12.0],
        "waited": [60.0, 0.1, 1.1],
        "exchanges": [["join", "register"], [], ["participate"]],
        "first_exchanges": [
            [
                {"stage": "join", "nodes": 8, "empty": 10.0, "seconds": 12.0 + more},
                {"stage": "register", "nodes": 8, "empty": 10.0, "seconds": 9.0 - more},
                {"stage": "participate", "nodes": 8, "empty": 10.0, "seconds": 11.0},
            ]
            for more in (0.0, 5.0, -1.0)
        ],
        "empty_steps": [[2.0, 5.0, 1.0, 2.0]],
    }
    other = {**run, "rounds": [90.0, 20.0, 24.0]}
    measured = {"random": [[30.0, 10.0], [11.0, 10.0]], "committee": run, "paillier": other}
    monkeypatch.setattr(deployment, "_measured", lambda _settings: measured)
    figures = bench_deployment(DeploymentSettings()).figures
    assert figures["committee_round_ratio"] == pytest.approx(1.1)
    assert figures["paillier_round_ratio"] == pytest.approx(2.2)
    assert figures["committee_waited_share"] == pytest.approx(1.2 / 22)
    assert figures["committee_waited_below_1_second"] == 0.5
    assert figures["committee_first_selection_seconds"] == 32.0
    assert figures["committee_first_selection_exchanges"] == 3
    assert figures["committee_largest_exchange_ratio"] == pytest.approx(1.2)


def test_a_signal_stops_the_supernodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM becomes an exception, with which the benchmark leaves the federation."""
    federation = MagicMock()
    run = federation.return_value.__enter__.return_value.run
    run.side_effect = lambda *_, **__: signal.raise_signal(signal.SIGTERM)
    monkeypatch.setattr("deployment.Federation", federation)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        with pytest.raises(SystemExit, match="143"):
            deployment._measured(DeploymentSettings())
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    federation.return_value.__exit__.assert_called_once()
