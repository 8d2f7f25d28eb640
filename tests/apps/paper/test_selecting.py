"""Cells without training tell what a study tells."""

import json
from typing import Any

import pytest
from reproduction import Method, Resources
from reproduction.selecting import (
    measure_registry,
    measure_study,
    registry_cell,
    study_cell,
    study_settings,
)

from dubhe_flwr.experiments import StudySettings
from dubhe_flwr.experiments.study import study

SMALL: dict[str, Any] = {"num_clients": 60, "num_participants": 8, "num_rounds": 4, "seed": 2}


def ignore(_share: float) -> None:
    """Take no note of the progress."""


@pytest.mark.parametrize(
    "method", [Method("random"), Method("dubhe-paper", 3), Method("dubhe"), Method("greedy")]
)
def test_a_cell_is_a_study_of_one_method(method: Method) -> None:
    """The sets are those of the study with the same settings."""
    cell = study_cell(method, **SMALL)
    result = measure_study(cell.config, Resources(), ignore).result
    whole = study(StudySettings(**SMALL, **method.settings))
    assert result["emd"] == whole.methods[method.kind].emd
    assert result["local_emd"] == whole.methods[method.kind].local_emd
    assert result["federation"]["num_clients"] == 60
    assert 0 < result["global_emd"] < 2


def test_the_config_survives_json() -> None:
    """What is in a file is enough to measure again."""
    cell = study_cell(Method("dubhe"), **SMALL)
    restored = json.loads(json.dumps(cell.config))
    assert study_settings(restored) == study_settings(cell.config)
    assert study_settings(restored).num_clients == 60


def test_a_baseline_does_not_depend_on_dubhe() -> None:
    """Another default of the selection leaves its cells as they are."""
    assert (
        study_cell(Method("greedy"), **SMALL, tries=3).key
        == study_cell(Method("greedy"), **SMALL, tries=7, participation="calibrated").key
    )
    assert study_cell(Method("dubhe-paper", 3)).key != study_cell(Method("dubhe-paper", 7)).key
    assert study_cell(Method("greedy"), seed=1).key != study_cell(Method("greedy"), seed=2).key


def test_progress_adds_up_to_one() -> None:
    """A share for each round."""
    shares: list[float] = []
    measure_study(study_cell(Method("random"), **SMALL).config, Resources(), shares.append)
    assert sum(shares) == pytest.approx(1)


def test_the_registry_counts_every_client_once() -> None:
    """All 56 categories are there, empty or not."""
    cell = registry_cell(num_clients=60, num_participants=8)
    result = measure_registry(cell.config, Resources(), ignore).result
    categories = [tuple(entry["category"]) for entry in result["categories"]]
    assert len(set(categories)) == 56
    assert {(9,), (8, 9), tuple(range(10))} <= set(categories)
    assert sum(entry["clients"] for entry in result["categories"]) == 60
