"""FEMNIST's letters are read from Flower Datasets, and split by writer."""

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.paper import scenarios
from dubhe_lab.paper.femnist import load_femnist, split_writers
from dubhe_lab.paper.trainings import TrainingCellSettings

OF_WRITER = {"f0002_01": (3, 10, 61), "f0001_09": (36, 35), "f0003_02": (1, 2)}
"""What each writer wrote: digits 0 to 9, A (10) to z (61)."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the download by ten images of each character, white except for one pixel."""

    def row(writer: str, character: int) -> dict[str, Any]:
        image = np.where(np.arange(784) == character, 0, 255).astype(np.uint8).reshape(28, 28)
        return {"image": image, "writer_id": writer, "hsf_id": 0, "character": character}

    def table(dataset: str, partitioners: dict[str, int]) -> Any:
        assert (dataset, partitioners) == ("flwrlabs/femnist", {})
        rows = [row(writer, each) for writer, of in OF_WRITER.items() for each in of] * 10
        return SimpleNamespace(load_split={"train": rows}.__getitem__)

    monkeypatch.setitem(sys.modules, "flwr_datasets", SimpleNamespace(FederatedDataset=table))


@pytest.mark.usefixtures("hub")
def test_letters_have_their_writer_and_class() -> None:
    """Digits are left out; nine in ten of a writer's images are learnt, the others tested."""
    letters, writers = load_femnist()
    assert (letters.num_classes, letters.image_shape) == (52, (1, 28, 28))
    by_writer = [set(letters.train_labels[writers == number]) for number in (0, 1)]
    assert by_writer == [{26, 25}, {0, 51}]  # in the order of their ids
    assert np.bincount(writers).tolist() == [18, 18]
    flat = letters.train_images.reshape(36, -1)
    assert (flat.argmax(axis=1) - letters.train_labels == 10).all()
    assert flat.mean() == pytest.approx(0, abs=1e-6)
    assert flat.std() == pytest.approx(1, abs=1e-5)
    held = np.bincount(letters.test_labels)
    assert len(set(held[held > 0])) == 1
    assert np.array_equal(load_femnist()[0].test_images, letters.test_images)


@pytest.mark.usefixtures("hub")
def test_clients_are_the_writers() -> None:
    """The comparison's federation is the writers', not a drawn one."""
    sizes = {"num_clients": 4, "num_samples": 3, "num_participants": 3}
    settings = TrainingCellSettings.for_dataset("femnist", **sizes, methods=("random",))
    scenario = scenarios.scenario_of(settings)
    scenarios._load.cache_clear()
    held = [set(np.flatnonzero(row)) for row in scenario.federation.label_counts]
    assert all(labels <= {0, 51} or labels <= {25, 26} for labels in held)
    assert scenario.federation.label_counts.sum(axis=1).tolist() == [3] * 4
    assert scenario.samples.shape == (4, 3)


def test_what_cannot_be_loaded_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed download, the error says what to do."""
    hub = SimpleNamespace(FederatedDataset=Mock(side_effect=ConnectionError("no route")))
    monkeypatch.setitem(sys.modules, "flwr_datasets", hub)
    with pytest.raises(DataError, match=r"could not load .* \(ConnectionError\); check"):
        load_femnist()


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 30), st.integers(1, 20)
)
def test_every_client_belongs_to_one_writer(
    held: list[int], further: int, num_samples: int
) -> None:
    """All clients have equal size, every writer has at least one, and samples repeat evenly."""
    writers = np.random.default_rng(0).permutation(np.repeat(np.arange(len(held)), held))
    samples = split_writers(writers, len(held) + further, num_samples, np.random.default_rng(7))
    assert samples.shape == (len(held) + further, num_samples)
    owners = writers[samples]
    assert np.all(owners == owners[:, :1])
    assert set(owners[:, 0].tolist()) == set(range(len(held)))
    for writer in range(len(held)):
        times = np.bincount(samples[owners[:, 0] == writer].ravel(), minlength=len(writers))
        assert np.ptp(times[writers == writer]) <= 1


def test_more_samples_make_more_clients() -> None:
    """Writers with more samples get more of the additional clients."""
    writers = np.repeat([0, 1, 2], [90, 5, 5])
    samples = split_writers(writers, 13, 10, np.random.default_rng(0))
    assert np.bincount(writers[samples[:, 0]]).tolist() == [10, 2, 1]
    papers = split_writers(np.repeat(np.arange(3400), 85), 8962, 32, np.random.default_rng(0))
    assert papers.shape == (8962, 32)


@pytest.mark.parametrize(("num_clients", "num_samples"), [(1, 4), (2, 0)])
def test_too_few_clients_or_samples_are_refused(num_clients: int, num_samples: int) -> None:
    """Too few clients for the writers, or too few samples, are refused."""
    with pytest.raises(SettingsError, match="at least one client per writer"):
        split_writers([0, 1], num_clients, num_samples, np.random.default_rng(0))
