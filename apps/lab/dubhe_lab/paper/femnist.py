"""FEMNIST's handwritten letters from Flower Datasets, split into clients by writer."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.data import Dataset, largest_remainder

_HUB: Final = "flwrlabs/femnist"
_FIRST_LETTER: Final = 10
_NUM_LETTERS: Final = 52
_TRAIN_SHARE: Final = 0.9


def load_femnist() -> tuple[Dataset, NDArray[np.int64]]:
    """Load the handwritten letters, upper case (classes 0 to 25) and lower case (26 to 51).

    Returns the data set and the writer of each training image, numbered from 0 without gaps, in the
    order of their ids. A fixed tenth of each writer's images, chosen at random, is for the test,
    which has the same number of images per class. Ink is bright, as in MNIST.
    """
    of_writer: dict[str, list[tuple[NDArray[np.uint8], int]]] = {}
    for row in _rows():  # an image of 28 x 28, where 255 is white; digits come before letters
        if (letter := int(row["character"]) - _FIRST_LETTER) >= 0:
            image = np.asarray(row["image"], dtype=np.uint8)
            of_writer.setdefault(str(row["writer_id"]), []).append((image, letter))
    every = [of_writer[writer] for writer in sorted(of_writer)]
    pixels, letters = zip(*(sample for own in every for sample in own), strict=True)
    images = 1 - np.stack(pixels)[:, np.newaxis].astype(np.float32) / np.float32(255)
    labels = np.asarray(letters, dtype=np.int64)
    owners = np.repeat(np.arange(len(every)), [len(own) for own in every])
    is_learnt = np.concatenate([_learnt(number, len(own)) for number, own in enumerate(every)])
    tested = np.flatnonzero(~is_learnt)
    tested = tested[_balanced(labels[tested])]
    images -= images[is_learnt].mean(dtype=np.float64)
    images /= images[is_learnt].std(dtype=np.float64)
    dataset = Dataset(
        "femnist",
        _NUM_LETTERS,
        images[is_learnt],
        labels[is_learnt],
        images[tested],
        labels[tested],
    )
    return dataset, owners[is_learnt]


def _rows() -> Iterable[Mapping[str, Any]]:
    """Return the rows of the table, which Flower Datasets downloads if needed."""
    try:
        flower_datasets = import_module("flwr_datasets")
    except ImportError as error:
        raise DataError(
            "FEMNIST comes with Flower Datasets; run `pip install './apps/lab[hub]'` in a clone."
        ) from error
    try:
        table = flower_datasets.FederatedDataset(dataset=_HUB, partitioners={})
        rows: Iterable[Mapping[str, Any]] = table.load_split("train")
    except Exception as error:
        raise DataError(
            f"Flower Datasets could not load {_HUB} ({type(error).__name__}); check the network."
        ) from error
    return rows


def _learnt(number: int, num_images: int) -> NDArray[np.bool_]:
    """Return which of a writer's images are for training."""
    order = generator(0, "femnist test", number).permutation(num_images)
    return order < round(_TRAIN_SHARE * num_images)


def _balanced(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of a balanced subset, with the same number of samples per class."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    fewest = min(map(len, by_class))
    rng = generator(0, "balanced test")
    return np.sort(np.concatenate([rng.permutation(own)[:fewest] for own in by_class]))


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
            "writers; pass at least one client per writer, and one sample per client."
        )
    further = largest_remainder(held / held.sum(), num_clients - held.size)
    by_writer = np.split(np.argsort(owners, kind="stable"), np.cumsum(held)[:-1])
    dealt = [
        np.resize(generator.permutation(own), (1 + more, num_samples))
        for own, more in zip(by_writer, further.tolist(), strict=True)
    ]
    return np.concatenate(dealt)
