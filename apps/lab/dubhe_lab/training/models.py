"""The experiments' classifiers, and the conversion between their parameters and Flower's arrays."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dubhe_flwr.errors import SettingsError
from dubhe_lab.training.loop import isolated_rng

_COLOURS: Final = 3
_SMALLEST_FOR_CONVOLUTIONS: Final = 12


def build_model(image_shape: tuple[int, int, int], num_classes: int, seed: int) -> nn.Module:
    """Return a new classifier on the CPU for images of shape (channels, height, width).

    Colour images get torchvision's ResNet18 with group normalisation (32 groups), since batch
    statistics of small, skewed batches do not transfer between clients. Grey images of at least 12
    by 12 pixels get the network with two convolutions from Reddi et al., "Adaptive Federated
    Optimization" (ICLR 2021). Smaller inputs, such as scikit-learn's digits and rows of a table,
    get one hidden layer of 64 units. All return `num_classes` logits. The seed fixes the
    parameters; torch's own random state stays as it was.

    Examples
    --------
    >>> model = build_model((1, 28, 28), num_classes=10, seed=7)
    >>> sum(parameter.numel() for parameter in model.parameters())
    1199882
    """
    channels, height, width = image_shape
    with isolated_rng(torch.device("cpu"), seed):
        if channels == _COLOURS:
            # Torchvision is slow to import, and only this model needs it.
            from torchvision.models import resnet18  # noqa: PLC0415

            norm_layer = partial(nn.GroupNorm, 32)
            large: nn.Module = resnet18(num_classes=num_classes, norm_layer=norm_layer)
            return large
        if min(height, width) < _SMALLEST_FOR_CONVOLUTIONS:
            pixels = channels * height * width
            hidden = nn.Linear(pixels, 64), nn.ReLU()
            return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, num_classes))
        pooled = ((height - 4) // 2) * ((width - 4) // 2)
        model = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=3),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(64 * pooled, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, num_classes),
        )
    # On a CPU, this layout saves a tenth of a training step and half of an evaluation.
    return model.to(memory_format=torch.channels_last)


def get_parameters(model: nn.Module) -> list[NDArray[Any]]:
    """Return copies of all parameters and buffers, in state-dict order."""
    return [tensor.detach().cpu().numpy().copy() for tensor in model.state_dict().values()]


def set_parameters(model: nn.Module, arrays: Sequence[NDArray[Any]]) -> None:
    """Overwrite all parameters and buffers of a model; arrays that do not fit change nothing.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> set_parameters(model, [np.ones((2, 3)), np.zeros(2)])
    >>> model(torch.ones(3)).tolist()
    [3.0, 3.0]
    """
    state = model.state_dict()
    remedy = "build the same model on the server and on every client."
    if len(arrays) != len(state):
        raise SettingsError(
            f"{len(arrays)} arrays do not fit a model of {len(state)} parameters and buffers; "
            f"{remedy}"
        )
    for (name, tensor), array in zip(state.items(), arrays, strict=True):
        if tensor.shape != np.shape(array):
            raise SettingsError(
                f"An array of shape {np.shape(array)} does not fit {name} of shape "
                f"{tuple(tensor.shape)}; {remedy}"
            )
    with torch.no_grad():
        for own, array in zip(state.values(), arrays, strict=True):
            own.copy_(torch.tensor(array))
