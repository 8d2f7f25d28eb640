"""Clients that are the writers of FEMNIST's letters: their skew is as it is, not drawn."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core import generator
from dubhe_flwr.data import USUAL_FOLDER, Dataset, Federation, count_labels
from dubhe_flwr.experiments.scenario import Scenario
from dubhe_flwr.experiments.settings import CompareSettings
from reproduction.femnist import load_femnist, split_writers

__all__ = ["scenario_of_letters"]


@lru_cache(maxsize=1)
def scenario_of_letters(settings: CompareSettings) -> Scenario:
    """Return the scenario of these settings, made once."""
    of_clients = settings.federation
    dataset, writers = _letters(settings.machine.data_dir)
    rng = generator(of_clients.seed, "samples")
    samples = split_writers(writers, of_clients.num_clients, of_clients.num_samples, rng)
    counts = count_labels(dataset.train_labels[samples], dataset.num_classes)
    return Scenario(settings, dataset, Federation("femnist", counts), samples)


@lru_cache(maxsize=1)
def _letters(data_dir: str | None) -> tuple[Dataset, NDArray[np.int64]]:
    return load_femnist(USUAL_FOLDER if data_dir is None else Path(data_dir))
