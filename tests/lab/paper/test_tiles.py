"""Tests of loading CIFAR-10 from tiles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dubhe_flwr.errors import DataError
from dubhe_lab.paper.scenarios import scenario_of
from dubhe_lab.paper.tiles import load_tiles
from dubhe_lab.paper.trainings import TrainingCellSettings


@pytest.fixture
def tiles(tmp_path: Path) -> Path:
    """Return a folder with one tile of 2 x 3 images per part; each image has its own red."""
    for part in ("train", "test"):
        rows = [
            np.concatenate([np.full((32, 32, 3), (10 * (3 * r + c), 7, 9)) for c in range(3)], 1)
            for r in range(2)
        ]
        pixels = np.concatenate(rows).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{part}_00.webp", lossless=True)
    np.savez(tmp_path / "labels.npz", y_train=np.arange(6), y_test=np.arange(6)[::-1])
    return tmp_path


def test_tiles_of_cifar10_are_cut_row_by_row(tiles: Path) -> None:
    """Images are cut row by row, channels first and normalised; a missing tile is an error."""
    images = load_tiles(tiles)
    assert images is not None
    assert images.train_images.shape == (6, 3, 32, 32)
    assert images.train_images.dtype == np.float32
    red = images.train_images[:, 0] * 0.2470 + 0.4914
    np.testing.assert_allclose(red[:, 4, 5] * 255, 10 * np.arange(6), atol=1e-3)
    blue = images.train_images[:, 2] * 0.2616 + 0.4465
    np.testing.assert_allclose(blue * 255, 9, atol=1e-3)
    assert images.test_labels.tolist() == [5, 4, 3, 2, 1, 0]
    (tiles / "test_00.webp").unlink()
    with pytest.raises(DataError, match=f"{tiles} cannot be read.*fetch them again"):
        load_tiles(tiles)


def test_a_scenario_uses_tiles_if_there_are_any(tiles: Path) -> None:
    """A scenario loads the tiles from a subfolder of the data folder."""
    (tiles / "cifar10").mkdir()
    for path in tiles.glob("*.*"):
        path.rename(tiles / "cifar10" / path.name)
    given: dict[str, Any] = {
        "methods": ("random",),
        "num_clients": 2,
        "num_samples": 3,
        "num_participants": 1,
        "rho": 1.0,
        "emd": 0.0,
    }
    settings = TrainingCellSettings.for_dataset("cifar10", data_dir=str(tiles), **given)
    assert scenario_of(settings).dataset.train_images.shape == (6, 3, 32, 32)
