"""Natural federations: their clients, Dubhe's target mix, and the report."""

from typing import Any

import numpy as np
import pytest
from reproduction_results import finished

from dubhe_lab.data.natural import of_rows
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper import natural, scenarios
from dubhe_lab.paper.cells import Measured
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.paper.scenarios import scenario_of
from dubhe_lab.paper.trainings import TrainingCellSettings


def test_the_own_mix_is_all_clients_class_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule's target is the class mix of the samples that the seed draws."""
    rng, labels = np.random.default_rng(0), np.tile([0, 0, 0, 1, 2], 60)
    features = np.eye(3)[labels] + 0.1 * rng.normal(size=(300, 3))
    data = of_rows("chem97", np.repeat(np.arange(30), 10), features, labels, 3)
    monkeypatch.setattr(scenarios, "load_natural", lambda _name: data)
    scenarios._load.cache_clear()
    scenario_of.cache_clear()
    seen: list[Any] = []

    def note(settings: Any, _machine: Any, _advance: Any) -> Measured:
        seen.append(settings.selection.target)
        return Measured({})

    monkeypatch.setattr(natural, "measure", note)
    settings = TrainingCellSettings.for_dataset(
        "chem97", num_clients=30, num_samples=12, num_participants=5, reference_set=(1, 2, 3),
        methods=("dubhe",), num_rounds=2, encrypted=False, device="cpu", learning_rate=0.1,
    )  # fmt: skip
    natural._measure_own_mix(settings, MachineSettings(device="cpu"), lambda _share: None)
    counts = scenario_of(settings).federation.label_counts.sum(axis=0)
    assert seen == [pytest.approx(tuple(counts / counts.sum()))]
    assert seen[0][0] > 0.5


def test_missing_measurements_are_left_out() -> None:
    """Federations without cells have no table, and methods without cells no row."""
    options = PaperSettings(scale="full", datasets=())
    cells = EXPERIMENTS["natural"].cells(options)
    there = [cell for cell in cells if "chem97" in cell.name and "powd" not in cell.name]
    (made,) = sections(["natural"], options, finished(there))
    (table,) = made.tables
    assert EXPERIMENTS["natural"].skips_missing_data
    assert "Does Dubhe help? The study says: much" in table.caption
    assert "Power-of-Choice" not in [row[0] for row in table.rows]
