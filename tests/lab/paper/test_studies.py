"""Cells without training hold the results of a study."""

from typing import Any

import pytest

from dubhe_lab.experiments import StudySettings
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.experiments.study import study
from dubhe_lab.paper.experiment import Method
from dubhe_lab.paper.studies import registry_cell, study_cell

SMALL: dict[str, Any] = {"num_clients": 60, "num_participants": 8, "num_rounds": 4, "seed": 2}


def ignore(_share: float) -> None:
    """Ignore the progress."""


@pytest.mark.parametrize(
    "method", [Method("random"), Method("dubhe-paper", 3), Method("dubhe"), Method("greedy")]
)
def test_a_cell_is_a_study_of_one_method(method: Method) -> None:
    """A cell selects the same sets as a study with the same settings."""
    cell = study_cell(method, **SMALL)
    assert cell.name == f"10/1.5, dirichlet, N=60, K=8, {method}, seed 2"
    result = cell.measure(MachineSettings(), ignore).result
    whole = study(StudySettings.of(**SMALL, **method.settings))
    assert result["emd"] == whole.methods[method.kind].emd
    assert result["local_emd"] == whole.methods[method.kind].local_emd
    assert result["federation"]["num_clients"] == 60
    assert 0 < result["global_emd"] < 2


def test_the_registry_counts_every_client_once() -> None:
    """The registry has all 56 categories and counts every client once."""
    cell = registry_cell(num_clients=60, num_participants=8)
    result = cell.measure(MachineSettings(), ignore).result
    categories = [tuple(entry["category"]) for entry in result["categories"]]
    assert len(set(categories)) == 56
    assert {(9,), (8, 9), tuple(range(10))} <= set(categories)
    assert sum(entry["clients"] for entry in result["categories"]) == 60
