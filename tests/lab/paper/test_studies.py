"""Cells without training hold the results of selections."""

from typing import Any

import pytest

from dubhe_lab.experiments import StudySettings
from dubhe_lab.experiments.selections import select
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.experiment import Method
from dubhe_lab.paper.studies import registry_cell, study_cell

SMALL: dict[str, Any] = {"num_clients": 60, "num_participants": 8, "num_rounds": 4, "seed": 2}


def test_a_cell_selects_as_its_settings_say() -> None:
    """A cell holds the federation, and the same sets as a selection with the same settings."""
    cell = study_cell(Method("dubhe-paper", 3), **SMALL)
    assert cell.name == "10/1.5, dirichlet, N=60, K=8, dubhe-paper, H=3, seed 2"
    shares: list[float] = []
    result = cell.measure(MachineSettings(), shares.append).result
    settings = StudySettings.of(**SMALL, rule="paper", tries=3)
    federation = settings.federation.draw("synthetic", 10)
    assert result["emd"] == select("dubhe", settings, federation).emd
    assert result["federation"]["num_clients"] == 60
    assert 0 < result["global_emd"] < 2
    assert sum(shares) == pytest.approx(1)


def test_the_registry_counts_every_client_once() -> None:
    """The registry has all 56 categories and counts every client once."""
    cell = registry_cell(num_clients=60, num_participants=8)
    result = cell.measure(MachineSettings(), lambda _share: None).result
    categories = [tuple(entry["category"]) for entry in result["categories"]]
    assert len(set(categories)) == 56
    assert {(9,), (8, 9), tuple(range(10))} <= set(categories)
    assert sum(entry["clients"] for entry in result["categories"]) == 60
