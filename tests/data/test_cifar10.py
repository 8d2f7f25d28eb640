"""CIFAR-10 comes from tiles, or through torchvision."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torchvision
from PIL import Image

from dubhe_flwr.data import cifar10, load_dataset
from dubhe_flwr.errors import DataError

REAL_CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"


@pytest.fixture
def tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one tile of 2 x 3 images for each part; each image has its own red."""
    monkeypatch.setattr(cifar10, "_TILES", {"train": 1, "test": 1})
    for part in ("train", "test"):
        rows = [
            np.concatenate([np.full((32, 32, 3), (10 * (3 * r + c), 7, 9)) for c in range(3)], 1)
            for r in range(2)
        ]
        pixels = np.concatenate(rows).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{part}_00.webp", lossless=True)
    np.savez(tmp_path / "labels.npz", y_train=np.arange(6), y_test=np.arange(6)[::-1])
    return tmp_path


def test_tiles_are_cut_row_by_row(tiles: Path) -> None:
    """Channels come first, and are normalised each on its own."""
    images = load_dataset("cifar10", tiles)
    assert images.train_images.shape == (6, 3, 32, 32)
    assert images.train_images.dtype == np.float32
    red = images.train_images[:, 0] * 0.2470 + 0.4914
    np.testing.assert_allclose(red[:, 4, 5] * 255, 10 * np.arange(6), atol=1e-3)
    blue = images.train_images[:, 2] * 0.2616 + 0.4465
    np.testing.assert_allclose(blue * 255, 9, atol=1e-3)
    assert images.test_labels.tolist() == [5, 4, 3, 2, 1, 0]


def test_a_missing_tile_is_named(tiles: Path) -> None:
    """The folder and the remedy too."""
    (tiles / "test_00.webp").unlink()
    with pytest.raises(DataError, match=r"test_00\.webp.*fetch them again"):
        load_dataset("cifar10", tiles)


def test_missing_files_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to fetch and where to put it."""
    fail = Mock(side_effect=RuntimeError("no network"))
    monkeypatch.setattr(torchvision.datasets, "CIFAR10", fail)
    with pytest.raises(
        DataError, match=r"fetch cifar-10-python\.tar\.gz and put it into"
    ) as caught:
        load_dataset("cifar10", tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_CIFAR10.is_dir(), reason="the tiles of CIFAR-10 are not at hand")
def test_reads_the_real_tiles() -> None:
    """5000 and 1000 images of each class, normalised."""
    images = load_dataset("cifar10", REAL_CIFAR10.parent)
    assert np.bincount(images.train_labels).tolist() == [5000] * 10
    assert np.bincount(images.test_labels).tolist() == [1000] * 10
    np.testing.assert_allclose(images.train_images.mean(axis=(0, 2, 3)), 0, atol=1e-3)
    np.testing.assert_allclose(images.train_images.std(axis=(0, 2, 3)), 1, atol=1e-3)
