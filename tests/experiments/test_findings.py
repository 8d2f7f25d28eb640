"""Figures of what was selected are those that their definitions say."""

import numpy as np
import pytest

from dubhe_flwr.data import Federation
from dubhe_flwr.experiments.findings import federation_summary, selected_data
from dubhe_flwr.protocol import Plan

FEDERATION = Federation("letters", np.array([[4, 0], [0, 4], [2, 2], [3, 1]]))


def test_selected_data_is_described_round_by_round() -> None:
    """Worked by hand: two rounds of two clients out of four."""
    plans = [Plan(1, (7, 8), ("0", "1")), Plan(2, (7, 9), ("0", "3"))]
    data = selected_data(plans, FEDERATION)
    assert data["emd"] == pytest.approx((0.0, 0.75))
    assert data["local_emd"] == pytest.approx((1.0, 0.25))
    assert data["coverage"] == 0.75
    assert data["class_proportions"].mean == pytest.approx((0.6875, 0.3125))
    assert data["class_proportions"].sd == pytest.approx((0.1875, 0.1875))


def test_the_federation_is_described_as_realised() -> None:
    """Nine of sixteen samples belong to the first class."""
    summary = federation_summary(FEDERATION)
    assert (summary.num_clients, summary.num_classes, summary.num_samples) == (4, 2, 4)
    assert summary.class_proportions == (9 / 16, 7 / 16)
    assert summary.rho == pytest.approx(9 / 7)
    assert summary.name.startswith("letters-1.3/")
