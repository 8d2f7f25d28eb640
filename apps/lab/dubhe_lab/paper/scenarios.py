"""Scenarios of `dubhe paper`: CIFAR-10 tiles, writers, rotated digits and natural clients."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.labels import count_labels
from dubhe_lab.data import USUAL_FOLDER, Dataset, Federation
from dubhe_lab.data.natural import load_natural
from dubhe_lab.experiments.scenario import Scenario, scenario_of, scenario_on
from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.paper.femnist import load_femnist, split_writers
from dubhe_lab.paper.tiles import load_tiles

_DEGREES: Final = 45.0


@lru_cache(maxsize=1)
def scenario_of_letters(settings: CompareSettings) -> Scenario:
    """Return a scenario whose clients are FEMNIST's writers, with their natural skew."""
    of_clients = settings.federation
    dataset, writers = _letters(settings.machine.data_dir)
    rng = generator(of_clients.seed, "samples")
    samples = split_writers(writers, of_clients.num_clients, of_clients.num_samples, rng)
    labels = dataset.train_labels[samples]
    counts = np.stack([count_labels(own, dataset.num_classes) for own in labels])
    return Scenario(settings, dataset, Federation("femnist", counts), samples)


@lru_cache(maxsize=1)
def _letters(data_dir: str | None) -> tuple[Dataset, NDArray[np.int64]]:
    return load_femnist(USUAL_FOLDER if data_dir is None else Path(data_dir))


@lru_cache(maxsize=1)
def scenario_of_cifar10(settings: CompareSettings) -> Scenario:
    """Return the usual scenario, with images from tiles if there are any."""
    tiles = _tiles(settings.machine.data_dir)
    return scenario_of(settings) if tiles is None else scenario_on(tiles, settings)


@lru_cache(maxsize=1)
def _tiles(data_dir: str | None) -> Dataset | None:
    return load_tiles(USUAL_FOLDER if data_dir is None else Path(data_dir))


@lru_cache(maxsize=1)
def scenario_of_turned_digits(settings: CompareSettings) -> Scenario:
    """Return a scenario in which each client's digits are rotated by an angle of its own.

    Angles are uniform from -45 to 45 degrees, for test images too. As with real handwriting,
    clients then differ in more than their labels.
    """
    usual = scenario_of(replace(settings, dataset="digits"))
    data, held = usual.dataset, usual.samples.ravel()
    rng = generator(settings.federation.seed, "angles")
    of_clients = np.repeat(
        rng.uniform(-_DEGREES, _DEGREES, len(usual.samples)), held.size // len(usual.samples)
    )
    of_tests = rng.uniform(-_DEGREES, _DEGREES, len(data.test_images))
    turned = replace(
        data,
        train_images=_turned(data.train_images[held], of_clients),
        train_labels=data.train_labels[held],
        test_images=_turned(data.test_images, of_tests),
    )
    own = np.arange(held.size).reshape(usual.samples.shape)
    return Scenario(settings, turned, usual.federation, own)


def _turned(images: NDArray[np.float32], degrees: NDArray[np.float64]) -> NDArray[np.float32]:
    blank = float(images.min())
    return np.stack(
        [
            rotate(image, angle, axes=(1, 2), reshape=False, order=1, cval=blank)
            for image, angle in zip(images, degrees, strict=True)
        ]
    )


@lru_cache(maxsize=1)
def scenario_of_natural(settings: CompareSettings) -> Scenario:
    """Return a scenario whose clients are schools, lecturers or users, with equal sample sizes.

    A client with more than `num_samples` samples uses a random subset. A client with fewer repeats
    its samples, so that their counts differ by at most one.
    """
    of_clients = settings.federation
    dataset, owners = _natural(settings.dataset)
    rng = generator(of_clients.seed, "samples")
    samples = split_writers(owners, of_clients.num_clients, of_clients.num_samples, rng)
    labels = dataset.train_labels[samples]
    counts = np.stack([count_labels(own, dataset.num_classes) for own in labels])
    return Scenario(settings, dataset, Federation(settings.dataset, counts), samples)


_natural = lru_cache(maxsize=1)(load_natural)
