"""The model and the data: handwritten digits, spread over clients with few classes each."""

from functools import lru_cache

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray
from torch import Tensor, from_numpy, nn

from dubhe_flwr.data import Dataset, Federation, assign_samples, load_dataset
from dubhe_flwr.training.models import build_model

NUM_CLASSES = 10
SAMPLES_PER_CLIENT = 32


def new_model() -> nn.Module:
    """Return the model with its initial parameters."""
    return build_model((1, 8, 8), NUM_CLASSES, seed=0)


@lru_cache
def digits() -> Dataset:
    """Return all images, loaded once in each process."""
    return load_dataset("digits")


@lru_cache
def federation(num_clients: int) -> Federation:
    """Return how many samples of each class each client holds: 0 is frequent, 9 is rare."""
    return Federation.draw(
        "digits",
        num_clients=num_clients,
        num_classes=NUM_CLASSES,
        rho=10,
        emd=1.5 if num_clients >= 15 else 1.2,  # a dozen cannot differ as much
        num_samples=SAMPLES_PER_CLIENT,
        generator=np.random.default_rng(0),
    )


def label_counts(context: Context) -> NDArray[np.int64]:
    """Return how many samples of each class this client holds; Dubhe keeps them secret."""
    counts = federation(int(context.node_config["num-partitions"])).label_counts
    return np.asarray(counts[int(context.node_config["partition-id"])])


def train_data(context: Context) -> tuple[Tensor, Tensor]:
    """Return this client's images and labels."""
    counts = federation(int(context.node_config["num-partitions"])).label_counts
    samples = assign_samples(digits().train_labels, counts, np.random.default_rng(0))
    own = samples[int(context.node_config["partition-id"])]
    return from_numpy(digits().train_images[own]), from_numpy(digits().train_labels[own])


def test_data() -> tuple[Tensor, Tensor]:
    """Return the images and labels on which the server tests the model, all classes alike."""
    return from_numpy(digits().test_images), from_numpy(digits().test_labels)
