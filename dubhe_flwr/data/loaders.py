"""Loaders of the data sets that the experiments know by name."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.data.cifar10 import load_cifar10
from dubhe_flwr.data.dataset import Dataset, optional
from dubhe_flwr.data.femnist import load_femnist
from dubhe_flwr.errors import DataError, SettingsError

__all__ = ["DATASETS", "load_dataset"]

_MNIST_FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_PIXEL_MOMENTS: Final = {"digits": (0.3053, 0.3760), "mnist": (0.1307, 0.3081)}
"""Mean and standard deviation of the training pixels on a scale from 0 to 1."""


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : {"digits", "mnist", "cifar10", "femnist"}
        - ``digits``: 1797 images of 8 x 8 pixels that come with scikit-learn, split 80/20 with
          equal shares of each class.
        - ``mnist``: 60,000 and 10,000 images of 28 x 28 pixels.
        - ``cifar10``: 50,000 and 10,000 images in colour of 32 x 32 pixels.
        - ``femnist``: the handwritten letters of FEMNIST, upper and lower case, with their writers;
          as many test images of each of the 52 classes.

        Pixels are normalised to mean 0 and standard deviation 1.
    data_dir : path-like, optional
        Folder of the files of ``mnist``: in itself, in ``MNIST/raw`` (as torchvision has it), or
        in either of these below ``mnist``; gzip files are read where they are and nothing is
        written beside them. If they are nowhere, torchvision downloads them into this folder.
        Without it ``~/.cache/dubhe-flwr`` is taken. For the others see `load_cifar10` and
        `load_femnist`.

    Raises
    ------
    SettingsError
        If no data set has this name.
    DataError
        If a package is missing, or the files are neither there nor to be had.

    Examples
    --------
    >>> digits = load_dataset("digits")
    >>> digits.train_images.shape, digits.test_images.shape
    ((1437, 1, 8, 8), (360, 1, 8, 8))
    """
    if name not in DATASETS:
        raise SettingsError(f"No data set is called {name!r}; choose one of {', '.join(DATASETS)}.")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DataError(f"data_dir={str(data_dir)!r} is no folder; correct its name, or make it.")
    default = Path.home() / ".cache" / "dubhe-flwr"
    return DATASETS[name](default if data_dir is None else Path(data_dir))


def _load_digits(_data_dir: Path) -> Dataset:
    bunch = optional("digits", "sklearn.datasets").load_digits()
    images = _normalised("digits", bunch.images / 16)
    labels = bunch.target.astype(np.int64)
    split = optional("digits", "sklearn.model_selection").train_test_split
    train_images, test_images, train_labels, test_labels = split(
        images, labels, test_size=0.2, stratify=labels, random_state=0
    )
    return Dataset("digits", 10, train_images, train_labels, test_images, test_labels)


def _load_mnist(data_dir: Path) -> Dataset:
    mnist = optional("mnist", "torchvision.datasets").MNIST
    with TemporaryDirectory() as scratch:
        # torchvision unpacks beside the .gz files, which may lie in a folder that is read-only.
        root = data_dir
        if (folder := _find_mnist(data_dir)) is not None:
            root = Path(scratch)
            raw = root / "MNIST" / "raw"
            raw.mkdir(parents=True)
            for path in folder.glob("*-ubyte*"):
                shutil.copyfile(path, raw / path.name)
        try:
            train, test = (mnist(root, train=part, download=True) for part in (True, False))
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"MNIST is not in {data_dir} and could not be downloaded; fetch "
                f"{', '.join(f'{file}.gz' for file in _MNIST_FILES)} and put them into "
                f"{data_dir / 'MNIST' / 'raw'}."
            ) from error
    return Dataset(
        "mnist",
        10,
        _normalised("mnist", train.data.numpy() / np.float32(255)),
        train.targets.numpy(),
        _normalised("mnist", test.data.numpy() / np.float32(255)),
        test.targets.numpy(),
    )


def _normalised(name: str, pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Return grey images (M, height, width) with their channel added and pixels normalised."""
    mean, deviation = _PIXEL_MOMENTS[name]
    return ((pixels[:, np.newaxis] - mean) / deviation).astype(np.float32)


def _find_mnist(data_dir: Path) -> Path | None:
    """Return the folder that holds the four files, packed or not."""
    for base in (data_dir, data_dir / "mnist"):
        for folder in (base, base / "MNIST" / "raw"):
            if all(
                (folder / file).is_file() or (folder / f"{file}.gz").is_file()
                for file in _MNIST_FILES
            ):
                return folder
    return None


DATASETS: Final[dict[str, Callable[[Path], Dataset]]] = {
    "digits": _load_digits,
    "mnist": _load_mnist,
    "cifar10": load_cifar10,
    "femnist": load_femnist,
}
"""Loader of each data set, by name; each is given the folder to look in."""
