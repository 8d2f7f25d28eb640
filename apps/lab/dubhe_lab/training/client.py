"""A Flower client that trains a torch model on its own images."""

from typing import Any, TypeAlias

import torch
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar
from numpy.typing import NDArray
from torch import Tensor, nn

from dubhe_flwr.core.randomness import generator
from dubhe_lab.training.local_losses import LocalLoss
from dubhe_lab.training.loop import (
    OptimizerFactory,
    evaluate,
    limited_threads,
    resolve_device,
    train,
)
from dubhe_lab.training.models import get_parameters, set_parameters

Samples: TypeAlias = tuple[NDArray[Any] | Tensor, NDArray[Any] | Tensor]
"""Images (M, channels, height, width) and labels (M,), as arrays or tensors."""


class TorchClient(NumPyClient):
    """Trains and evaluates a torch model; results do not depend on earlier calls.

    Each call of `fit` overwrites the whole model, makes a new optimizer and draws its randomness
    from (seed, alias, round). Clients can therefore share one model object, and results do not
    depend on the order in which clients train. The round comes from ``config["server-round"]``;
    without it, a client sees its samples in the same order in every round.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that returns logits.
    train_data : tuple of array or Tensor
        Images of shape (M, channels, height, width) and labels of shape (M,).
    epochs, batch_size : int
        ``E``, passes over the samples (1), and ``B`` (8). The last batch of a pass may be smaller.
    optimizer : callable, optional (default: `adam` with learning rate 1e-4)
        Makes the optimizer.
    local_loss : callable, optional (default: cross-entropy)
        Returns the loss to minimise from a batch's logits and labels.
    proximal : float, default 0
        ``mu`` of FedProx (https://arxiv.org/abs/1812.06127): adds ``mu / 2 ||w - w_t||^2`` to the
        loss, where w_t are the parameters that the client received.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where to compute; ``auto`` uses the GPU if there is one.
    seed : int, default 0
        Seed of the run.
    alias : str, default ""
        The client's name, which stays the same from run to run, such as its partition-id.
    num_threads : int, optional (default: torch's current number)
        CPU threads. With the same number, results on a CPU repeat to the last bit.

    Examples
    --------
    >>> images, labels = torch.eye(2).reshape(2, 1, 1, 2), torch.tensor([0, 1])
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    >>> client = TorchClient(model, (images, labels), device="cpu", alias="3")
    >>> start = client.get_parameters({})
    >>> parameters, num_examples, metrics = client.fit(start, {"server-round": 1})
    >>> len(parameters), num_examples, sorted(metrics)
    (2, 2, ['loss', 'rms-loss'])
    >>> loss, num_examples, _ = client.evaluate(parameters, {})
    >>> loss < metrics["loss"], num_examples
    (True, 2)
    """

    def __init__(
        self,
        model: nn.Module,
        train_data: Samples,
        *,
        epochs: int = 1,
        batch_size: int = 8,
        optimizer: OptimizerFactory | None = None,
        local_loss: LocalLoss | None = None,
        proximal: float = 0.0,
        device: str = "auto",
        seed: int = 0,
        alias: str = "",
        num_threads: int | None = None,
    ) -> None:
        self.device = resolve_device(device)
        self.model = model
        images, labels = train_data
        self.train_data = (
            torch.as_tensor(images, dtype=torch.float32),
            torch.as_tensor(labels, dtype=torch.int64),
        )
        self.settings: dict[str, Any] = {
            "epochs": epochs,
            "batch_size": batch_size,
            "optimizer": optimizer,
            "local_loss": local_loss,
            "proximal": proximal,
        }
        self.seed = seed
        self.alias = alias
        self.num_threads = num_threads

    def get_parameters(self, config: dict[str, Scalar]) -> NDArrays:  # noqa: ARG002
        """Return the model's current parameters and buffers."""
        return get_parameters(self.model)

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Return the trained parameters, the number of samples, and the training losses.

        The metrics are the batches' mean ``loss`` and the samples' root mean squared ``rms-loss``,
        each taken just before the model trained on the batch.
        """
        draw = generator(self.seed, "training", self.alias, int(config.get("server-round", 0)))
        with limited_threads(self.num_threads):
            self.model.to(self.device)
            set_parameters(self.model, parameters)
            loss = train(self.model, *self.train_data, generator=draw, **self.settings)
            metrics: dict[str, Scalar] = {"loss": loss.mean, "rms-loss": loss.rms}
            return get_parameters(self.model), len(self.train_data[1]), metrics

    def evaluate(
        self,
        parameters: NDArrays,
        config: dict[str, Scalar],  # noqa: ARG002
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Return a model's mean loss on the client's samples, their number, and the accuracy."""
        with limited_threads(self.num_threads):
            self.model.to(self.device)
            set_parameters(self.model, parameters)
            found = evaluate(self.model, *self.train_data)
            return found.loss, len(self.train_data[1]), {"accuracy": found.accuracy}
