"""Natural federations: their clients, Dubhe's target mix, and the report."""

from io import StringIO
from typing import Any

import numpy as np
import pytest
from reproduction_results import finished
from rich.console import Console

from dubhe_lab.data.natural import of_rows
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper import natural, scenarios
from dubhe_lab.paper.cells import Cell, Measured
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.paper.scenarios import scenario_of
from dubhe_lab.paper.trainings import TrainingCellSettings

FULL = PaperSettings(scale="full", datasets=())
CELLS = EXPERIMENTS["natural"].cells(FULL)


def test_each_federation_has_five_methods_and_seeds() -> None:
    """Each federation has a study and 5 x 5 training runs, all distinct; FEMNIST is optional."""
    assert len(CELLS) == len({cell.key for cell in CELLS}) == 3 * (1 + 5 * 5)
    with_letters = EXPERIMENTS["natural"].cells(PaperSettings(scale="full"))
    assert len(with_letters) == 4 * (1 + 5 * 5)
    assert EXPERIMENTS["natural"].skips_missing_data


def test_a_cell_depends_on_the_target_and_not_on_a_drawn_skew() -> None:
    """Dubhe's two variants differ only in the target; a drawn skew is not part of a cell."""
    named = {cell.name: cell for cell in CELLS}
    usual, own = (named[f"chem97, dubhe{mix}, seed 0"] for mix in ("", ", own mix"))
    assert {k for k in own.config if own.config[k] != usual.config.get(k)} == {"target"}
    assert own.config["target"] == "own"
    assert not {"rho", "emd", "generator"} & own.config.keys()


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Chem97 by thirty clients with ten rows each, in classes 3 : 1 : 1."""
    rng = np.random.default_rng(0)
    labels = np.tile([0, 0, 0, 1, 2], 60)
    features = np.eye(3)[labels] + 0.1 * rng.normal(size=(300, 3))
    data = of_rows("chem97", np.repeat(np.arange(30), 10), features, labels, 3)
    monkeypatch.setattr(scenarios, "load_natural", lambda _name: data)
    scenarios._load.cache_clear()
    scenario_of.cache_clear()


def little_settings() -> TrainingCellSettings:
    """Return training settings for thirty clients with twelve samples each."""
    return TrainingCellSettings.for_dataset(
        "chem97", num_clients=30, num_samples=12, num_participants=5, reference_set=(1, 2, 3),
        methods=("dubhe",), num_rounds=2, encrypted=False, device="cpu", learning_rate=0.1,
    )  # fmt: skip


@pytest.mark.usefixtures("little")
def test_a_client_holds_samples_of_its_own() -> None:
    """A client's twelve samples repeat its eight rows once or twice each."""
    made = scenario_of(little_settings())
    assert made.samples.shape == (30, 12)
    for client, own in enumerate(made.samples):
        times = np.unique(own, return_counts=True)[1]
        assert set(own.tolist()) == set(range(8 * client, 8 * client + 8))
        assert set(times.tolist()) == {1, 2}
    assert made.federation.num_samples == 12


@pytest.mark.usefixtures("little")
def test_the_own_mix_is_all_clients_class_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule's target is the class mix of the samples that the seed draws."""
    seen: list[Any] = []

    def note(settings: Any, _machine: Any, _advance: Any) -> Measured:
        seen.append(settings.selection.target)
        return Measured({})

    monkeypatch.setattr(natural, "measure", note)
    settings, machine = little_settings(), MachineSettings(device="cpu")
    natural._measure_own_mix(settings, machine, lambda _share: None)
    counts = scenario_of(settings).federation.label_counts.sum(axis=0)
    assert seen == [pytest.approx(tuple(counts / counts.sum()))]
    assert seen[0][0] > 0.5


def results() -> dict[str, Any]:
    """Return a sweep's results, with metrics that differ."""
    found = finished(CELLS)
    for cell in CELLS:
        result = found[cell.key]["result"]
        if "study" in cell.name:
            found[cell.key]["result"] = {"helps": "little", "rho": 2.0, "emd": 0.6}
            continue
        (method,) = result["methods"].values()
        for name, value in (("accuracy", 0.4), ("balanced_accuracy", 0.3), ("worst_recall", 0.1)):
            method[name] = [value + cell.config["seed"] / 100] * len(method["accuracy"])
    return found


def test_the_table_has_all_three_metrics_and_the_verdict() -> None:
    """The table shows means over five seeds with the largest distance, in 80 columns."""
    (made,) = sections(["natural"], FULL, results())
    assert len(made.tables) == 3
    table = made.tables[0]
    assert "The study says: little" in table.caption
    assert [row[0] for row in table.rows] == [
        "random", "Power-of-Choice", "greedy (oracle)", "Dubhe", "Dubhe, own mix",
    ]  # fmt: skip
    assert table.rows[3][1:4] == ["42.0±2.0", "32.0±2.0", "12.0±2.0"]
    assert [row[-2] for row in table.rows] == ["nothing", "losses", "labels", "yes/no", "yes/no"]
    screen = StringIO()
    Console(file=screen, width=80).print(table.for_terminal())
    lines = screen.getvalue().splitlines()
    assert any("Dubhe, own mix" in line and "encrypt" in line for line in lines)


def test_missing_measurements_are_left_out() -> None:
    """Federations without cells have no table, and methods without cells no row."""

    def is_there(cell: Cell) -> bool:
        return "chem97" in cell.name and "powd" not in cell.name

    found = {cell.key: results()[cell.key] for cell in CELLS if is_there(cell)}
    (made,) = sections(["natural"], FULL, found)
    (table,) = made.tables
    assert "Power-of-Choice" not in [row[0] for row in table.rows]
