"""Tests of the figures that the deployment benchmark derives from its timings."""

import pytest

from dubhe_lab.bench import deployment
from dubhe_lab.bench.deployment import DeploymentSettings, bench_deployment


def test_first_rounds_are_left_out_of_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """First rounds, which wait for a registration, are left out of the means."""
    measured = {
        "random": [[30.0, 10.0], [11.0, 10.0]],
        "dubhe": [90.0, 10.0, 12.0],
        "waited": [60.0, 0.1, 1.1],
        "exchanges": [["join", "register"], [], ["participate"]],
    }
    monkeypatch.setattr(deployment, "_measured", lambda _settings: measured)
    figures = bench_deployment(DeploymentSettings()).figures
    assert figures["round_ratio"] == pytest.approx(1.1)
    assert figures["waited_share"] == pytest.approx(1.2 / 22)
    assert figures["waited_below_1_second"] == 0.5
    assert figures["first_selection_seconds"] == 60.0
    assert figures["first_selection_exchanges"] == 2
