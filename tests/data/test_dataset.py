"""Tests of the data set in memory."""

import numpy as np
import pytest

from dubhe_flwr.data import Dataset
from dubhe_flwr.errors import DataError

IMAGES = np.zeros((3, 2, 4, 5), dtype=np.float32)
LABELS = np.array([0, 1, 1])


def test_knows_its_image_shape() -> None:
    """The shape of an image is channels, height and width."""
    assert Dataset("toy", 2, IMAGES, LABELS, IMAGES, LABELS).image_shape == (2, 4, 5)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES, LABELS[:2], r"\(3, 2, 4, 5\) and labels of shape \(2,\)"),
        (IMAGES[:, 0], LABELS, r"\(3, 4, 5\)"),
        (IMAGES, LABELS + 1, "from 1 to 2; 2 classes are numbered 0 to 1"),
        (IMAGES, LABELS - 1, "from -1 to 0"),
    ],
)
def test_refuses_what_does_not_fit(
    part: int, images: np.ndarray, labels: np.ndarray, message: str
) -> None:
    """Images and labels that do not belong together are refused, in either part."""
    parts = [(IMAGES, LABELS), (IMAGES, LABELS)]
    parts[part] = (images, labels)
    with pytest.raises(DataError, match=message):
        Dataset("toy", 2, *parts[0], *parts[1])
