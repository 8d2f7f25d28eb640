"""Tests of the protocol benchmark."""

from typing import Any

import pytest

from dubhe_lab.bench import protocol
from dubhe_lab.bench.protocol import ProtocolSettings, RoundCost, StageCost

SMALL: dict[str, Any] = {"key_bits": 512, "num_participants": 4, "num_following": 1}
FIRST = RoundCost(
    1.0, (StageCost("register", 10, 100, 200, 4.0, 90.0), StageCost("appoint", 1, 1, 1, 0.0, 5.0))
)
NEXT = RoundCost(0.5, (StageCost("participate", 10, 10, 20, 0.5, 2.0),))


def test_shares_cover_a_registration_period() -> None:
    """Shares cover one round that registers and 49 that follow, with all clients' work."""
    shares = protocol._shares([FIRST, NEXT, NEXT], of_training=10.0)
    assert shares["selection_share"] == pytest.approx((5 + 95 + 49 * (1 + 2)) / 500)
    assert shares["server_share"] == pytest.approx(0.1)
    assert shares["server_share_with_registration"] == pytest.approx((5 + 49) / 500)


@pytest.mark.slow
def test_a_client_trains() -> None:
    """The training that selection is compared with is a real one."""
    _, num_samples, metrics = protocol.one_training()()
    loss = metrics["loss"]
    assert num_samples == 128
    assert isinstance(loss, float)
    assert loss > 0


def test_shares_are_relative_to_measured_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares are relative to the time that one client takes to train, times K."""
    monkeypatch.setattr(protocol, "one_training", lambda: lambda: sum(range(10**6)))
    results = protocol.bench_protocol(ProtocolSettings(sizes=(20,), **SMALL, num_real=3))
    trained = results.measured["trained_client_seconds"]
    assert len(trained) == 4
    assert results.measured["training_round_seconds"] >= 4 * min(trained)
    assert results.figures["selection_share_dubhe-paper_n20"] > 0
