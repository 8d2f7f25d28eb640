"""The scenario that all methods share: the same clients with the same samples."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from flwr.common import NDArrays
from numpy.typing import NDArray
from torch import nn

from dubhe_flwr.core import generator
from dubhe_flwr.data import Dataset, Federation, assign_samples, load_dataset
from dubhe_flwr.experiments.settings import CompareSettings
from dubhe_flwr.training import (
    TorchClient,
    adam,
    build_model,
    evaluate,
    limited_threads,
    resolve_device,
    set_parameters,
)

__all__ = ["Scenario", "scenario_of"]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Who holds which samples, and what is trained and tested on them.

    Parameters
    ----------
    settings : CompareSettings
        What it was made from.
    dataset : Dataset
        The images.
    federation : Federation
        The label counts of all clients.
    samples : ndarray of int64, shape (N, N_VC)
        Each client's samples, as indices of training images.
    """

    settings: CompareSettings
    dataset: Dataset
    federation: Federation
    samples: NDArray[np.int64]

    def new_model(self) -> nn.Module:
        """Return a model with the initial parameters, which are those of all methods."""
        return build_model(
            self.dataset.image_shape, self.dataset.num_classes, seed=self.settings.seed
        )

    def client(self, partition: int) -> TorchClient:
        """Return the client with that partition-id."""
        settings, own = self.settings, self.samples[partition]
        return TorchClient(
            self._workbench,
            (self.dataset.train_images[own], self.dataset.train_labels[own]),
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            optimizer=adam(settings.learning_rate),
            device=settings.device,
            seed=settings.seed,
            alias=str(partition),
            num_threads=settings.num_threads,
        )

    def test(self, parameters: NDArrays) -> tuple[float, float]:
        """Return loss and accuracy of a model on all test images."""
        with limited_threads(self.settings.num_threads):
            set_parameters(self._test_bench, parameters)
            return evaluate(
                self._test_bench,
                torch.from_numpy(self.dataset.test_images),
                torch.from_numpy(self.dataset.test_labels),
            )

    @cached_property
    def _workbench(self) -> nn.Module:
        """The model object that the clients of a process train in, one after another."""
        return self.new_model()

    @cached_property
    def _test_bench(self) -> nn.Module:
        """The server's model object, apart from the clients' since threads may overlap."""
        return self.new_model().to(resolve_device(self.settings.device))


@lru_cache(maxsize=1)
def scenario_of(settings: CompareSettings) -> Scenario:
    """Return the scenario of these settings, made once in each process.

    Simulated nodes call this where they run, so that no images travel with their messages.

    Parameters
    ----------
    settings : CompareSettings
        They fix the scenario to the last bit.

    Raises
    ------
    SettingsError
        If the wanted skew is out of reach.
    DataError
        If the data set is missing.

    Examples
    --------
    >>> scenario = scenario_of(CompareSettings.for_dataset("digits", num_clients=40))
    >>> scenario.samples.shape
    (40, 32)
    """
    dataset = load_dataset(settings.dataset, settings.data_dir)
    federation = Federation.draw(
        settings.dataset,
        num_clients=settings.num_clients,
        num_classes=dataset.num_classes,
        rho=settings.rho,
        emd=settings.emd,
        generator=generator(settings.seed, "federation"),
        num_samples=settings.num_samples,
    )
    samples = assign_samples(
        dataset.train_labels, federation.label_counts, generator(settings.seed, "samples")
    )
    return Scenario(settings, dataset, federation, samples)
