"""A labelled image data set in memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, for training and for a test on balanced data.

    Parameters
    ----------
    name : str
        Name by which `load_dataset` knows it.
    num_classes : int
        ``C``; labels are 0 to C-1.
    train_images, test_images : ndarray of float32, shape (M, channels, height, width)
        Normalised pixels.
    train_labels, test_labels : ndarray of int64, shape (M,)
        Class of each image.
    """

    name: str
    num_classes: int
    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        for images, labels in (
            (self.train_images, self.train_labels),
            (self.test_images, self.test_labels),
        ):
            if images.ndim != 4 or labels.shape != images.shape[:1]:
                raise DataError(
                    f"{self.name} has images of shape {images.shape} and labels of shape "
                    f"{labels.shape}; pass (M, channels, height, width) and (M,)."
                )
            if labels.size and not 0 <= labels.min() <= labels.max() < self.num_classes:
                raise DataError(
                    f"{self.name} has labels from {labels.min()} to {labels.max()}; "
                    f"{self.num_classes} classes are numbered 0 to {self.num_classes - 1}."
                )

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width
