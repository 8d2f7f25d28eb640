"""The letters of FEMNIST with their writers, from files in the layout of LEAF."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.data.dataset import Dataset
from dubhe_flwr.errors import DataError

__all__ = ["load_femnist"]

_FIRST_LETTER: Final = 10
_NUM_LETTERS: Final = 52
_SIDE: Final = 28


def load_femnist(data_dir: Path) -> Dataset:
    """Load the handwritten letters, upper case (classes 0 to 25) and lower case (26 to 51).

    The test set holds as many images of each class, chosen once and for all. Ink is bright, as in
    MNIST, and pixels are normalised to mean 0 and standard deviation 1.

    Parameters
    ----------
    data_dir : Path
        Folder that holds ``train/*.json`` and ``test/*.json`` as LEAF makes them: in itself, or in
        ``data``, ``femnist`` or ``femnist/data``. In each file ``user_data`` has, for each writer,
        ``x`` (rows of 784 pixels, 1 is white) and ``y`` (0 to 61; from 10 on they are letters).

    Returns
    -------
    Dataset
        Its `writers` number the writers of the training images.

    Raises
    ------
    DataError
        If the files are missing or of another layout.
    """
    folder = _find(data_dir)
    train_images, train_labels, writers = _letters(folder / "train")
    test_images, test_labels, _ = _letters(folder / "test")
    balanced = _balanced(test_labels)
    mean, deviation = train_images.mean(dtype=np.float64), train_images.std(dtype=np.float64)
    return Dataset(
        "femnist",
        _NUM_LETTERS,
        ((train_images - mean) / deviation).astype(np.float32),
        train_labels,
        ((test_images[balanced] - mean) / deviation).astype(np.float32),
        test_labels[balanced],
        writers,
    )


def _find(data_dir: Path) -> Path:
    for folder in (data_dir, *(data_dir / name for name in ("data", "femnist", "femnist/data"))):
        if all(any((folder / part).glob("*.json")) for part in ("train", "test")):
            return folder
    raise DataError(
        f"FEMNIST is not in {data_dir}; make it with LEAF (`./preprocess.sh -s niid --sf 1.0 -k 0 "
        "-t sample` in data/femnist of github.com/TalwalkarLab/leaf) and put its folders "
        f"data/train and data/test into {data_dir / 'femnist'}."
    )


def _letters(
    folder: Path,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return images, classes and writers of all letters in the files of a folder."""
    images: list[NDArray[np.float32]] = []
    labels: list[NDArray[np.int64]] = []
    writers: list[NDArray[np.int64]] = []
    for pixels, classes in _users(folder):
        if np.any(own := classes >= 0):
            images.append(1 - pixels[own])
            labels.append(classes[own])
            writers.append(np.full(own.sum(), len(writers)))
    if not images:
        raise DataError(f"There is no letter in {folder}; make FEMNIST anew with LEAF.")
    return np.concatenate(images), np.concatenate(labels), np.concatenate(writers)


def _users(folder: Path) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))["user_data"]
            for user in sorted(data):
                pixels = np.asarray(data[user]["x"], dtype=np.float32)
                classes = np.asarray(data[user]["y"], dtype=np.int64) - _FIRST_LETTER
                yield pixels.reshape(len(classes), 1, _SIDE, _SIDE), classes
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} is not in the layout of LEAF ({type(error).__name__}: {error}); make "
                "FEMNIST anew."
            ) from error


def _balanced(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of as many samples of each class, of those that there are."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    fewest = min(map(len, by_class))
    rng = generator(0, "balanced test")
    return np.sort(np.concatenate([rng.permutation(own)[:fewest] for own in by_class]))
