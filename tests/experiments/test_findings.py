"""Figures of what was selected are those that their definitions say."""

import numpy as np
import pytest

from dubhe_flwr.data import Federation
from dubhe_flwr.experiments.findings import federation_summary

FEDERATION = Federation("letters", np.array([[4, 0], [0, 4], [2, 2], [3, 1]]))


def test_the_federation_is_described_as_realised() -> None:
    """Nine of sixteen samples belong to the first class."""
    summary = federation_summary(FEDERATION)
    assert (summary.num_clients, summary.num_classes, summary.num_samples) == (4, 2, 4)
    assert summary.class_proportions == (9 / 16, 7 / 16)
    assert summary.rho == pytest.approx(9 / 7)
    assert summary.name.startswith("letters-1.3/")
