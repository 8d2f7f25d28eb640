"""FEMNIST's handwritten letters, from LEAF or Flower Datasets, split into clients by writer."""

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.data import Dataset, largest_remainder

_FIRST_LETTER: Final = 10
_NUM_LETTERS: Final = 52
_SIDE: Final = 28
_HUB: Final = "flwrlabs/femnist"
_TRAIN_SHARE: Final = 0.9

_Writer: TypeAlias = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Images, in which 1 is white, and classes 0 to 61."""


def load_femnist(data_dir: Path) -> tuple[Dataset, NDArray[np.int64]]:
    """Load the handwritten letters, upper case (classes 0 to 25) and lower case (26 to 51).

    Returns the data set and the writer of each training image, numbered from 0 without gaps. The
    test set is a fixed choice with the same number of images per class. Ink is bright, as in MNIST.
    In LEAF's files, ``user_data`` has two entries for each writer: ``x``, rows of 784 pixels where
    1 is white, and ``y``, the classes from 0 to 61, where letters start at 10.
    """
    train, test = _parts(data_dir)
    train_images, train_labels, writers = _letters(train)
    test_images, test_labels, _ = _letters(test)
    balanced = _balanced(test_labels)
    mean, deviation = train_images.mean(dtype=np.float64), train_images.std(dtype=np.float64)
    dataset = Dataset(
        "femnist",
        _NUM_LETTERS,
        ((train_images - mean) / deviation).astype(np.float32),
        train_labels,
        ((test_images[balanced] - mean) / deviation).astype(np.float32),
        test_labels[balanced],
    )
    return dataset, writers


def _parts(data_dir: Path) -> tuple[Iterable[_Writer], Iterable[_Writer]]:
    """Return the writers of the training and of the test set."""
    for folder in (data_dir, *(data_dir / name for name in ("data", "femnist", "femnist/data"))):
        if all(any((folder / part).glob("*.json")) for part in ("train", "test")):
            return _writers(folder / "train"), _writers(folder / "test")
    if (rows := _download_rows()) is not None:
        return _split_rows(rows)
    raise DataError(
        f"FEMNIST is not in {data_dir}. Create it with LEAF (`./preprocess.sh -s niid --sf 1.0 "
        "-k 0 -t sample` in data/femnist of github.com/TalwalkarLab/leaf) and put its folders "
        f"data/train and data/test into {data_dir / 'femnist'}, or install Flower Datasets with "
        "`pip install './apps/lab[hub]'` in a clone, which downloads it."
    )


def _letters(
    writers: Iterable[_Writer],
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return images, classes and writers of all letters."""
    images: list[NDArray[np.float32]] = []
    labels: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.int64]] = []
    for pixels, characters in writers:
        if np.any(own := characters >= _FIRST_LETTER):
            images.append(1 - pixels[own])
            labels.append(characters[own] - _FIRST_LETTER)
            numbers.append(np.full(own.sum(), len(numbers)))
    if not images:
        raise DataError("FEMNIST's files contain no letters; create them again with LEAF.")
    return np.concatenate(images), np.concatenate(labels), np.concatenate(numbers)


def _writers(folder: Path) -> Iterator[_Writer]:
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))["user_data"]
            for user in sorted(data):
                pixels = np.asarray(data[user]["x"], dtype=np.float32)
                classes = np.asarray(data[user]["y"], dtype=np.int64)
                yield pixels.reshape(len(classes), 1, _SIDE, _SIDE), classes
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} does not have LEAF's layout ({type(error).__name__}: {error}); create "
                "FEMNIST again."
            ) from error


def _balanced(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of a balanced subset, with the same number of samples per class."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    fewest = min(map(len, by_class))
    rng = generator(0, "balanced test")
    return np.sort(np.concatenate([rng.permutation(own)[:fewest] for own in by_class]))


def _download_rows() -> Iterable[Mapping[str, Any]] | None:
    """Return the rows from Flower Datasets, downloaded if needed, or None if not installed."""
    try:
        flower_datasets = import_module("flwr_datasets")
    except ImportError:
        return None
    try:
        table = flower_datasets.FederatedDataset(dataset=_HUB, partitioners={})
        rows: Iterable[Mapping[str, Any]] = table.load_split("train")
    except Exception as error:
        raise DataError(
            f"Flower Datasets could not load {_HUB} ({type(error).__name__}); check the "
            "network, or create FEMNIST with LEAF."
        ) from error
    return rows


def _split_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[list[_Writer], list[_Writer]]:
    """Split each writer's images at random, nine in ten for training, as LEAF does.

    A row has an ``image`` (28 x 28, 255 is white), ``writer_id`` and ``character`` (0 to 61).
    Writers are sorted by id, and the same rows give the same split.
    """
    of_writer: dict[str, list[tuple[NDArray[np.uint8], int]]] = {}
    for row in rows:
        sample = np.asarray(row["image"], dtype=np.uint8), int(row["character"])
        of_writer.setdefault(str(row["writer_id"]), []).append(sample)
    train: list[_Writer] = []
    test: list[_Writer] = []
    for number, writer in enumerate(sorted(of_writer)):
        images, classes = zip(*of_writer[writer], strict=True)
        pixels = np.stack(images).astype(np.float32).reshape(-1, 1, _SIDE, _SIDE) / np.float32(255)
        labels = np.asarray(classes, dtype=np.int64)
        order = generator(0, "femnist test", number).permutation(len(labels))
        parts = np.split(order, [round(_TRAIN_SHARE * len(labels))])
        for part, rows_of_part in zip((train, test), parts, strict=True):
            chosen = np.sort(rows_of_part)
            part.append((pixels[chosen], labels[chosen]))
    return train, test


def split_writers(
    writers: ArrayLike, num_clients: int, num_samples: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Split writers' samples into virtual clients of equal size (FedVC).

    Every writer becomes at least one client, and writers with more samples become several. Each
    writer's shuffled samples are dealt round robin, so that none repeats before all are used.

    `writers` holds the writer of each of M samples, numbered from 0 without gaps. `num_clients`
    must be at least the number of writers. Returns sample indices of shape (N, N_VC).

    Examples
    --------
    >>> samples = split_writers([0, 0, 0, 0, 1], 3, 2, np.random.default_rng(7))
    >>> np.sort(samples[:2].ravel()).tolist(), samples[2].tolist()
    ([0, 1, 2, 3], [4, 4])
    """
    owners = np.asarray(writers, dtype=np.int64)
    held = np.bincount(owners)
    if num_samples < 1 or not held.size or num_clients < held.size:
        raise SettingsError(
            f"num_clients={num_clients} and num_samples={num_samples} do not fit {held.size} "
            "writers; give at least one client per writer, and one sample per client."
        )
    further = largest_remainder(held / held.sum(), num_clients - held.size)
    by_writer = np.split(np.argsort(owners, kind="stable"), np.cumsum(held)[:-1])
    dealt = [
        np.resize(generator.permutation(own), (1 + more, num_samples))
        for own, more in zip(by_writer, further.tolist(), strict=True)
    ]
    return np.concatenate(dealt)
