"""CIFAR-10: from image tiles where there are any, or else through torchvision."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.data.dataset import Dataset, optional
from dubhe_flwr.errors import DataError

__all__ = ["load_cifar10"]

_MEANS: Final = np.array([0.4914, 0.4822, 0.4465], np.float32)
_DEVIATIONS: Final = np.array([0.2470, 0.2435, 0.2616], np.float32)
"""Of the channels of the training pixels on a scale from 0 to 1."""

_SIDE: Final = 32
_TILES: Final = {"train": 50, "test": 10}


def load_cifar10(data_dir: Path) -> Dataset:
    """Load CIFAR-10.

    The folder holds, in itself or in ``cifar10``, either ``labels.npz`` (``y_train``, ``y_test``)
    with ``train_00.webp`` to ``train_49.webp`` and ``test_00.webp`` to ``test_09.webp`` (25 rows
    of 40 images each), or what torchvision unpacks. If it holds neither, torchvision downloads.

    Raises
    ------
    DataError
        If a package is missing, or the files are neither there nor to be had.
    """
    for folder in (data_dir, data_dir / "cifar10"):
        if (folder / "labels.npz").is_file():
            return _from_tiles(folder)
    cifar10 = optional("cifar10", "torchvision.datasets").CIFAR10
    root = data_dir / "cifar10" if (data_dir / "cifar10").is_dir() else data_dir
    try:
        train, test = (cifar10(root, train=part, download=True) for part in (True, False))
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"CIFAR-10 is not in {data_dir} and could not be downloaded; fetch "
            f"cifar-10-python.tar.gz and put it into {root}."
        ) from error
    return _dataset(train.data, train.targets, test.data, test.targets)


def _from_tiles(folder: Path) -> Dataset:
    image = optional("cifar10", "PIL.Image")
    try:
        with np.load(folder / "labels.npz") as labels:
            classes = {part: labels[f"y_{part}"] for part in _TILES}
        pixels = {
            part: np.concatenate(
                [
                    _tile(np.asarray(image.open(folder / f"{part}_{i:02d}.webp").convert("RGB")))
                    for i in range(number)
                ]
            )
            for part, number in _TILES.items()
        }
    except (KeyError, OSError, ValueError) as error:
        raise DataError(
            f"The tiles of CIFAR-10 in {folder} cannot be read ({error}); fetch them again, or "
            "remove labels.npz to let torchvision load the data set."
        ) from error
    return _dataset(pixels["train"], classes["train"], pixels["test"], classes["test"])


def _tile(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cut a tile into its images, row by row."""
    height, width, channels = pixels.shape
    rows, columns = height // _SIDE, width // _SIDE
    cut = pixels.reshape(rows, _SIDE, columns, _SIDE, channels).transpose(0, 2, 1, 3, 4)
    return cut.reshape(-1, _SIDE, _SIDE, channels)


def _dataset(train: Any, train_labels: Any, test: Any, test_labels: Any) -> Dataset:
    return Dataset(
        "cifar10",
        10,
        _normalised(train),
        np.asarray(train_labels, dtype=np.int64),
        _normalised(test),
        np.asarray(test_labels, dtype=np.int64),
    )


def _normalised(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    scaled = (pixels / np.float32(255) - _MEANS) / _DEVIATIONS
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))
