"""The scenario that all methods of a comparison share: data, clients, samples and model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from flwr.common import NDArrays
from numpy.typing import NDArray
from torch import Tensor, nn

from dubhe_flwr.core.randomness import generator
from dubhe_lab.data import Dataset, Federation, assign_samples, load_dataset
from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.training.client import TorchClient
from dubhe_lab.training.local_losses import LOCAL_LOSSES
from dubhe_lab.training.loop import Evaluation, adam, evaluate, limited_threads, resolve_device, sgd
from dubhe_lab.training.models import build_model, set_parameters

_OPTIMIZERS: Final = {"sgd": sgd, "adam": adam}
_SAME_NAMES: Final = ("epochs", "batch_size", "num_threads", "proximal")


@dataclass(frozen=True, eq=False)
class Scenario:
    """A data set split among clients, and the model that they train.

    Row i of `samples`, shape (N, N_VC), holds the indices of client i's training samples.
    """

    settings: CompareSettings
    dataset: Dataset
    federation: Federation
    samples: NDArray[np.int64]

    def new_model(self) -> nn.Module:
        """Return a model with the initial parameters, which all methods share."""
        return build_model(
            self.dataset.image_shape, self.dataset.num_classes, seed=self.settings.federation.seed
        )

    def client(self, partition: int) -> TorchClient:
        """Return the client with this partition-id."""
        training = self.settings.training
        images, labels = self._train_data
        own = torch.from_numpy(self.samples[partition]).to(images.device)
        make_loss = LOCAL_LOSSES.get(training.local_loss)
        return TorchClient(
            self._workbench,
            (images[own], labels[own]),
            **{name: getattr(training, name) for name in _SAME_NAMES},
            local_loss=make_loss and make_loss(labels[own], self.dataset.num_classes),
            optimizer=_OPTIMIZERS[training.optimizer](training.rate),
            device=self.settings.machine.device,
            seed=self.settings.federation.seed,
            alias=str(partition),
        )

    def test(self, parameters: NDArrays) -> Evaluation:
        """Evaluate a model on all test images."""
        with limited_threads(self.settings.training.num_threads):
            set_parameters(self._test_bench, parameters)
            return evaluate(self._test_bench, *self._test_data)

    @cached_property
    def _train_data(self) -> tuple[Tensor, Tensor]:
        """All training samples on the device; even the largest data set fits easily."""
        return self._on_device(self.dataset.train_images, self.dataset.train_labels)

    @cached_property
    def _test_data(self) -> tuple[Tensor, Tensor]:
        return self._on_device(self.dataset.test_images, self.dataset.test_labels)

    def _on_device(self, *arrays: NDArray[Any]) -> tuple[Tensor, Tensor]:
        device = resolve_device(self.settings.machine.device)
        images, labels = (torch.from_numpy(array).to(device) for array in arrays)
        return images, labels

    @cached_property
    def _workbench(self) -> nn.Module:
        """The model object that a process's clients share, one after another."""
        return self.new_model()

    @cached_property
    def _test_bench(self) -> nn.Module:
        """The server's own model object, since the server may test while clients train."""
        return self.new_model().to(resolve_device(self.settings.machine.device))


def scenario_of(settings: CompareSettings) -> Scenario:
    """Return the scenario of these settings."""
    return scenario_on(load_dataset(settings.dataset, settings.machine.data_dir), settings)


def scenario_on(dataset: Dataset, settings: CompareSettings) -> Scenario:
    """Return the scenario of these settings on a given data set."""
    of_clients = settings.federation
    federation = of_clients.draw(settings.dataset, dataset.num_classes)
    rng = generator(of_clients.seed, "samples")
    samples = assign_samples(dataset.train_labels, federation.label_counts, rng)
    return Scenario(settings, dataset, federation, samples)
