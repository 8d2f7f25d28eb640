"""Digits rotated by one angle per client."""

from itertools import pairwise

import numpy as np

from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.paper.scenarios import scenario_of
from dubhe_lab.paper.trainings import TrainingCellSettings


def test_a_client_turns_all_of_its_digits_by_the_same_angle() -> None:
    """Labels stay; two clients rotate the same image differently, and one client identically."""
    given = {"num_clients": 60, "num_samples": 64, "methods": ("random",)}
    made = scenario_of(TrainingCellSettings.for_dataset("turned-digits", **given))
    usual = scenario_of(CompareSettings.for_dataset("digits", **given))
    held, owners = usual.samples.ravel(), np.repeat(np.arange(60), 64)
    labels = usual.dataset.train_labels[usual.samples]
    assert np.array_equal(made.dataset.train_labels[made.samples], labels)
    differing = 0
    for image in np.unique(held)[:300]:
        at = np.flatnonzero(held == image)
        for one, other in pairwise(at):
            same = np.array_equal(made.dataset.train_images[one], made.dataset.train_images[other])
            assert same == (owners[one] == owners[other])
            differing += not same
    assert differing > 300
    assert not np.array_equal(made.dataset.test_images, usual.dataset.test_images)
