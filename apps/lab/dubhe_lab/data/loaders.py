"""Load the experiments' data sets by name."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.data.dataset import Dataset

_MNIST_FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_PIXEL_MOMENTS: Final = {
    "digits": (0.3053, 0.3760),
    "mnist": (0.1307, 0.3081),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
"""Mean and standard deviation of the training pixels, or of each channel, scaled to 0..1."""

USUAL_FOLDER: Final = Path.home() / ".cache" / "dubhe-flwr"
"""Folder of the data sets unless another one is given."""


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : {"digits", "mnist", "cifar10"}
        - ``digits``: 1797 images of 8 x 8 pixels that come with scikit-learn, split 80/20 with
          equal shares of each class.
        - ``mnist`` and ``cifar10``: the test set has 10,000 images.

        Pixels are normalised to mean 0 and standard deviation 1.
    data_dir : path-like, optional
        Folder with the files, by default ``~/.cache/dubhe-flwr``.

        - ``mnist``: the files are in this folder, in ``MNIST/raw`` below it (where torchvision puts
          them), or in either of these places below ``mnist``. Gzip files are read in place, and
          nothing is written to their folder.
        - ``cifar10``: the files that torchvision unpacks are in this folder or in ``cifar10``.

        If the files are missing, torchvision downloads them into this folder.

    Examples
    --------
    >>> digits = load_dataset("digits")
    >>> digits.train_images.shape, digits.test_images.shape
    ((1437, 1, 8, 8), (360, 1, 8, 8))
    """
    if name not in DATASETS:
        raise SettingsError(f"No data set is called {name!r}; choose one of {', '.join(DATASETS)}.")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DataError(f"data_dir={str(data_dir)!r} is not a folder; correct or make it.")
    return DATASETS[name](USUAL_FOLDER if data_dir is None else Path(data_dir))


def _load_digits(_data_dir: Path) -> Dataset:
    # Scikit-learn, torchvision and Pillow come with an extra.
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    bunch = load_digits()
    images = _normalised("digits", bunch.images / 16)
    labels = bunch.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=0
    )
    return Dataset("digits", 10, train_images, train_labels, test_images, test_labels)


def _load_mnist(data_dir: Path) -> Dataset:
    files = ", ".join(f"{file}.gz" for file in _MNIST_FILES)
    remedy = f"{files} and put them into {data_dir / 'MNIST' / 'raw'}"
    with TemporaryDirectory() as scratch:
        # torchvision unpacks into the folder of the .gz files, which may be read-only.
        root = data_dir
        if (folder := _find_mnist(data_dir)) is not None:
            root = Path(scratch)
            raw = root / "MNIST" / "raw"
            raw.mkdir(parents=True)
            for path in folder.glob("*-ubyte*"):
                shutil.copyfile(path, raw / path.name)
        return _by_torchvision("mnist", root, f"MNIST is not in {data_dir}", remedy)


def _load_cifar10(data_dir: Path) -> Dataset:
    root = data_dir / "cifar10" if (data_dir / "cifar10").is_dir() else data_dir
    remedy = f"cifar-10-python.tar.gz and put it into {root}"
    return _by_torchvision("cifar10", root, f"CIFAR-10 is not in {data_dir}", remedy)


def _by_torchvision(name: str, root: Path, missing: str, wanted: str) -> Dataset:
    """Load a data set, and download it if it is missing."""
    from torchvision import datasets  # noqa: PLC0415

    make = getattr(datasets, name.upper())
    try:
        train, test = (make(root, train=part, download=True) for part in (True, False))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{missing} and could not be downloaded; fetch {wanted}.") from error
    return of_pixels(name, train.data, train.targets, test.data, test.targets)


def of_pixels(name: str, train: Any, train_labels: Any, test: Any, test_labels: Any) -> Dataset:
    """Return a data set of ten classes from pixels of 0 to 255."""
    return Dataset(
        name,
        10,
        _normalised(name, np.asarray(train) / np.float32(255)),
        np.asarray(train_labels, dtype=np.int64),
        _normalised(name, np.asarray(test) / np.float32(255)),
        np.asarray(test_labels, dtype=np.int64),
    )


def _normalised(name: str, pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Return images (M, height, width[, channels]) as (M, channels, height, width)."""
    mean, deviation = (np.asarray(moment, pixels.dtype) for moment in _PIXEL_MOMENTS[name])
    scaled: NDArray[np.float32] = ((pixels - mean) / deviation).astype(np.float32)
    if scaled.ndim == 3:
        return scaled[:, np.newaxis]
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def _find_mnist(data_dir: Path) -> Path | None:
    """Return the folder with the four files, compressed or not."""
    for place in (".", "MNIST/raw", "mnist", "mnist/MNIST/raw"):
        folder = data_dir / place
        either = ((folder / file, folder / f"{file}.gz") for file in _MNIST_FILES)
        if all(plain.is_file() or packed.is_file() for plain, packed in either):
            return folder
    return None


DATASETS: Final[dict[str, Callable[[Path], Dataset]]] = {
    "digits": _load_digits,
    "mnist": _load_mnist,
    "cifar10": _load_cifar10,
}
"""Loader of each data set, by name; a loader takes the folder to look in."""
