"""The data: handwritten digits, split among clients that hold two classes each."""

from functools import cache

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dubhe_flwr import count_labels

NUM_CLASSES = 10
CLASSES_PER_CLIENT = 2
SAMPLES_PER_CLIENT = 32
TEST_IMAGES_PER_CLASS = 40

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


@cache
def digits() -> tuple[Images, Labels]:
    """Return all 8 x 8 images, with values from 0 to 1, and their labels."""
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels.astype(np.int64)


@cache
def images_by_class() -> list[NDArray[np.intp]]:
    """Return the indices of the images of each class; the first 40 of each are for testing."""
    _, labels = digits()
    return [np.flatnonzero(labels == label) for label in range(NUM_CLASSES)]


def train_data(context: Context) -> tuple[Images, Labels]:
    """Return this client's images and labels: class 0 is ten times as frequent as class 9."""
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    frequency = np.geomspace(10, 1, NUM_CLASSES)
    chances = frequency / frequency.sum()
    own_classes = rng.choice(NUM_CLASSES, CLASSES_PER_CLIENT, replace=False, p=chances)
    own_labels = rng.choice(own_classes, SAMPLES_PER_CLIENT)
    indices = [rng.choice(images_by_class()[c][TEST_IMAGES_PER_CLASS:]) for c in own_labels]
    images, labels = digits()
    return images[indices], labels[indices]


def test_data() -> tuple[Images, Labels]:
    """Return the server's test images and labels, with the same number of each class."""
    indices = np.concatenate([own[:TEST_IMAGES_PER_CLASS] for own in images_by_class()])
    images, labels = digits()
    return images[indices], labels[indices]


def label_counts(context: Context) -> NDArray[np.int64]:
    """Return how many samples of each class this client holds; the server never sees this."""
    _, labels = train_data(context)
    return count_labels(labels, NUM_CLASSES)
