"""Epochs that start from the last prices: what is measured, and where the files are."""

import pytest
from docs.pages import ROOT

from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings

FULL = PaperSettings(scale="full")


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


def test_every_measurement_belongs_to_the_experiment() -> None:
    """The page shows all cells; `test_build` compares the table's content."""
    folder = ROOT / "docs" / "noise" / "cells"
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*")}
    assert files == {cell.key for cell in EXPERIMENTS["epochs"].cells(FULL)}
