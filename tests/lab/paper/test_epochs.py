"""Epochs that start from the last prices: what is measured."""

import pytest

from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings


def test_the_next_epochs_need_fewer_sums() -> None:
    """Later epochs start from the last prices, and nodes keep their probabilities for a while."""
    (cell,) = EXPERIMENTS["epochs"].cells(PaperSettings())
    done: list[float] = []
    result = cell.measure(MachineSettings(), done.append).result
    assert result == cell.measure(MachineSettings(), done.append).result
    assert 1.0 <= result["sums"] < result["sums_afresh"]
    assert 0.0 < result["distance_latest"] < 0.6
    assert result["distance"] != result["distance_latest"]
    assert result["spent"] == 0.0
    assert sum(done) == pytest.approx(2.0)
