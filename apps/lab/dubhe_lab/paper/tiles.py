"""CIFAR-10 as a few large pictures, each a grid of images."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dubhe_flwr.errors import DataError
from dubhe_lab.data import Dataset
from dubhe_lab.data.loaders import of_pixels

_SIDE: Final = 32


def load_tiles(data_dir: Path) -> Dataset | None:
    """Load ``labels.npz`` (``y_train``, ``y_test``), ``train_00.webp`` and so on.

    Looks in the folder and in its subfolder ``cifar10``. Returns None if there are no tiles, and
    raises `DataError` if they cannot be read.
    """
    folders = [each for each in (data_dir, data_dir / "cifar10") if (each / "labels.npz").is_file()]
    if not folders:
        return None
    parts: list[NDArray[Any]] = []
    try:
        with np.load(folders[0] / "labels.npz") as labels:
            for part in ("train", "test"):
                tiles = [
                    np.asarray(Image.open(path).convert("RGB"))
                    for path in sorted(folders[0].glob(f"{part}_*.webp"))
                ]
                parts += [np.concatenate([_cut(tile) for tile in tiles]), labels[f"y_{part}"]]
        return of_pixels("cifar10", *parts)
    except (DataError, KeyError, OSError, ValueError) as error:
        raise DataError(
            f"The tiles of CIFAR-10 in {folders[0]} cannot be read ({error}); fetch them again, or "
            "remove labels.npz so that torchvision loads the data set."
        ) from error


def _cut(tile: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width, channels = tile.shape
    rows, columns = height // _SIDE, width // _SIDE
    images = tile.reshape(rows, _SIDE, columns, _SIDE, channels).transpose(0, 2, 1, 3, 4)
    return images.reshape(-1, _SIDE, _SIDE, channels)
