"""Scenarios of `dubhe paper`: the data sets of a comparison, and some with clients of their own."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate

from dubhe_flwr.core.randomness import generator
from dubhe_flwr.labels import count_labels
from dubhe_lab.data import USUAL_FOLDER, Dataset, Federation, load_dataset
from dubhe_lab.data.natural import NATURAL, load_natural
from dubhe_lab.experiments.scenario import Scenario, scenario_on
from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.paper.femnist import load_femnist, split_writers
from dubhe_lab.paper.tiles import load_tiles

_DEGREES: Final = 45.0


def scenario_of(settings: CompareSettings) -> Scenario:
    """Return the scenario of these settings.

    Where samples have an owner (a writer, a school, a lecturer or a user), owners are the clients,
    with equal sample sizes: a client with more than `num_samples` samples uses a random subset, and
    one with fewer repeats its samples, so that their counts differ by at most one. Otherwise the
    federation is drawn.
    """
    if settings.dataset == "turned-digits":
        return _with_turned_digits(settings)
    dataset, owners = _load(settings.dataset, settings.machine.data_dir)
    if owners is None:
        return scenario_on(dataset, settings)
    of_clients = settings.federation
    rng = generator(of_clients.seed, "samples")
    samples = split_writers(owners, of_clients.num_clients, of_clients.num_samples, rng)
    labels = dataset.train_labels[samples]
    counts = np.stack([count_labels(own, dataset.num_classes) for own in labels])
    return Scenario(settings, dataset, Federation(settings.dataset, counts), samples)


@lru_cache(maxsize=1)
def _load(name: str, data_dir: str | None) -> tuple[Dataset, NDArray[np.int64] | None]:
    """Return a data set, and the owner of each training sample if it has one.

    Cells that follow each other often use the same data set.
    """
    if name == "femnist":
        return load_femnist()
    if name in NATURAL:
        return load_natural(name)
    folder = USUAL_FOLDER if data_dir is None else Path(data_dir)
    tiles = load_tiles(folder) if name == "cifar10" else None
    return load_dataset(name, data_dir) if tiles is None else tiles, None


def _with_turned_digits(settings: CompareSettings) -> Scenario:
    """Return a scenario in which each client's digits are rotated by an angle of its own.

    Angles are uniform from -45 to 45 degrees, for test images too. As with real handwriting,
    clients then differ in more than their labels.
    """
    digits, _ = _load("digits", settings.machine.data_dir)
    usual = scenario_on(digits, replace(settings, dataset="digits"))
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
