"""FEMNIST as Flower Datasets has it: one table of images with their writers."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DataError

__all__ = ["download_rows", "split_writers"]

_DATASET: Final = "flwrlabs/femnist"
_TRAIN_SHARE: Final = 0.9
_SIDE: Final = 28

Writer = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Images, 1 being white, and classes 0 to 61."""


def download_rows() -> Iterable[Mapping[str, Any]] | None:
    """Return the rows of the table, downloaded where need be; None without Flower Datasets.

    Raises
    ------
    DataError
        If it cannot be had.
    """
    try:
        flower_datasets = import_module("flwr_datasets")
    except ImportError:
        return None
    try:
        table = flower_datasets.FederatedDataset(dataset=_DATASET, partitioners={})
        rows: Iterable[Mapping[str, Any]] = table.load_split("train")
    except Exception as error:
        raise DataError(
            f"Flower Datasets could not load {_DATASET} ({type(error).__name__}); look at the "
            "network, or make FEMNIST with LEAF."
        ) from error
    return rows


def split_writers(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Writer], list[Writer]]:
    """Split each writer's images at random: nine in ten for training, as LEAF does.

    Parameters
    ----------
    rows : iterable of mapping
        With ``image`` (28 x 28, 255 is white), ``writer_id`` and ``character`` (0 to 61).

    Returns
    -------
    train, test : list of (ndarray of float32, shape (M, 1, 28, 28), ndarray of int64, shape (M,))
        By writer, in the order of their ids; the same for the same rows.

    Examples
    --------
    >>> image = np.full((28, 28), 255, dtype=np.uint8)
    >>> rows = [{"image": image, "writer_id": "b", "character": label} for label in range(20)]
    >>> [images.shape for part in split_writers(rows) for images, _ in part]
    [(18, 1, 28, 28), (2, 1, 28, 28)]
    """
    of_writer: dict[str, list[tuple[NDArray[np.uint8], int]]] = {}
    for row in rows:
        sample = np.asarray(row["image"], dtype=np.uint8), int(row["character"])
        of_writer.setdefault(str(row["writer_id"]), []).append(sample)
    train: list[Writer] = []
    test: list[Writer] = []
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
