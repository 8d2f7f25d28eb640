"""A cell with training is a comparison of one method."""

import pytest
from small_comparison import SMALL, run, small_settings

from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import Method, PaperSettings
from dubhe_lab.paper.trainings import training_cell

GIVEN = {name: value for name, value in SMALL.items() if name not in {"device", "tries", "emd"}}


def small_cell(method: Method, seed: int = 0) -> Cell:
    """Return a cell of a tiny federation with small keys."""
    return training_cell("MNIST", "10/1.0", method, seed, PaperSettings(), **GIVEN)


@pytest.mark.parametrize("method", [Method("greedy"), Method("dubhe-paper", 5)])
def test_a_cell_is_a_comparison_of_one_method(method: Method) -> None:
    """A cell has the same accuracies and sets as a comparison with the same settings."""
    shares: list[float] = []
    measured = small_cell(method).measure(MachineSettings(device="cpu"), shares.append)
    whole = run(
        small_settings(
            methods=(method.kind,),
            optimizer="adam",
            learning_rate=3e-3,
            num_rounds=3,
            **method.settings,
        )
    )
    (found,) = measured.result["methods"].values()
    assert found["accuracy"] == whole.methods[method.kind].accuracy
    assert found["local_emd"] == whole.methods[method.kind].local_emd
    assert measured.device == "cpu"
    assert sum(shares) == pytest.approx(1)


def test_full_scale_uses_the_papers_settings() -> None:
    """Full scale uses N, K, B, N_VC, E and Adam's learning rate of section 6.1.2."""
    options = PaperSettings(scale="full")
    config = training_cell("CIFAR10", "10/1.5", Method("random"), 0, options)
    wanted = {
        "dataset": "cifar10", "num_clients": 1000, "num_participants": 20, "batch_size": 8,
        "num_samples": 128, "epochs": 1, "optimizer": "adam", "learning_rate": 1e-4,
        "num_rounds": 200, "norm": "group",
    }  # fmt: skip
    assert wanted.items() <= config.config.items()
    config = training_cell("FEMNIST", "13.64/0.554", Method("random"), 0, options)
    wanted = {"num_clients": 8962, "num_samples": 32, "epochs": 5, "batch_size": 8}
    assert wanted.items() <= config.config.items()
