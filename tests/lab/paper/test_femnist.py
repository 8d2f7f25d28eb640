"""FEMNIST's letters are read from LEAF's files or Flower Datasets, and split by writer."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.paper.femnist import load_femnist, split_writers
from dubhe_lab.paper.scenarios import scenario_of
from dubhe_lab.paper.trainings import TrainingCellSettings


def user(classes: list[int], pixel: float = 0.5) -> dict[str, Any]:
    """Return a writer's images, white except for one pixel that encodes the class."""
    images = np.ones((len(classes), 784))
    images[np.arange(len(classes)), classes] = pixel
    return {"x": images.tolist(), "y": classes}


def write(folder: Path, **files: dict[str, Any]) -> None:
    """Write training and test files as LEAF does."""
    for part, users in files.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        path = folder / part / "all_data_0_niid_0_keep_0_part_9.json"
        path.write_text(json.dumps({"users": list(users), "user_data": users}), encoding="utf-8")


TRAIN = {"f0001": user([3, 10, 61, 10]), "f0002": user([1, 2]), "f0003": user([36, 35])}
TEST = {"f0001": user([10, 10, 10, 61, 61, 5])}


@pytest.mark.parametrize("layout", [".", "data", "femnist", "femnist/data"])
def test_letters_are_found_in_every_layout(tmp_path: Path, layout: str) -> None:
    """Letters are found in both layouts; digits and writers without letters are left out."""
    write(tmp_path / layout, train=TRAIN, test=TEST)
    letters, writers = load_femnist(tmp_path)
    assert (letters.num_classes, letters.image_shape) == (52, (1, 28, 28))
    assert letters.train_labels.tolist() == [0, 51, 0, 26, 25]
    assert writers.tolist() == [0, 0, 0, 1, 1]
    flat = letters.train_images.reshape(5, -1)
    assert flat.argmax(axis=1).tolist() == [10, 61, 10, 36, 35]
    assert flat.mean() == pytest.approx(0, abs=1e-6)
    assert flat.std() == pytest.approx(1, abs=1e-5)
    # Every class keeps the rarest class's number of test images, and the choice repeats.
    assert np.bincount(letters.test_labels)[[0, 51]].tolist() == [2, 2]
    assert np.array_equal(load_femnist(tmp_path)[0].test_images, letters.test_images)


def test_missing_files_are_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For missing files, one sentence says what to create and where, or what to install."""
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(DataError, match=r"preprocess\.sh.*put its folders") as caught:
        load_femnist(tmp_path)
    assert str(tmp_path / "femnist") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"user_data": {"a": {"x": [[1]], "y": [10]}}}']
)
def test_other_layouts_are_refused(tmp_path: Path, content: str) -> None:
    """A file with another layout is refused by name."""
    write(tmp_path, train=TRAIN, test=TEST)
    path = next((tmp_path / "train").glob("*.json"))
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="does not have LEAF's layout"):
        load_femnist(tmp_path)


def test_clients_are_the_writers(tmp_path: Path) -> None:
    """The comparison's federation is the writers', not a drawn one."""
    write(tmp_path, train=TRAIN, test=TEST)
    sizes = {"num_clients": 4, "num_samples": 3, "num_participants": 3}
    scenario = scenario_of(
        TrainingCellSettings.for_dataset(
            "femnist", data_dir=str(tmp_path), **sizes, methods=("random",)
        )
    )
    held = [set(np.flatnonzero(row)) for row in scenario.federation.label_counts]
    assert all(labels <= {0, 51} or labels <= {25, 26} for labels in held)
    assert scenario.federation.label_counts.sum(axis=1).tolist() == [3] * 4
    assert scenario.samples.shape == (4, 3)


def rows(num_each: int) -> list[dict[str, Any]]:
    """Return two writers' images as rows of Flower Datasets, white except for one pixel."""
    images = {
        character: np.where(np.arange(784) == character, 0, 255).astype(np.uint8).reshape(28, 28)
        for character in (3, 10, 61)
    }
    return [
        {"image": image, "writer_id": writer, "hsf_id": 0, "character": character}
        for writer in ("f0002_01", "f0001_09")
        for character, image in images.items()
    ] * num_each


def test_flower_datasets_stands_in_for_missing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower Datasets gives the same images as LEAF, nine in ten per writer for training."""

    def table(dataset: str, partitioners: dict[str, int]) -> Any:
        assert (dataset, partitioners) == ("flwrlabs/femnist", {})
        return SimpleNamespace(load_split={"train": rows(num_each=10)}.__getitem__)

    monkeypatch.setitem(sys.modules, "flwr_datasets", SimpleNamespace(FederatedDataset=table))
    letters, writers = load_femnist(tmp_path)
    assert np.unique(writers).tolist() == [0, 1]
    assert set(letters.train_labels) == {0, 51}
    assert 34 <= len(letters.train_labels) <= 38
    assert len(letters.train_labels) + len(letters.test_labels) <= 40
    flat = letters.train_images.reshape(len(letters.train_labels), -1)
    assert (flat.argmax(axis=1) - letters.train_labels == 10).all()


def test_a_failed_download_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed download, one sentence says what to do instead."""
    hub = SimpleNamespace(FederatedDataset=Mock(side_effect=ConnectionError("no route")))
    monkeypatch.setitem(sys.modules, "flwr_datasets", hub)
    with pytest.raises(DataError, match=r"could not load .* \(ConnectionError\); check"):
        load_femnist(tmp_path)


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
