"""Model parameters as the arrays that Flower sends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dubhe_flwr.errors import SettingsError

__all__ = ["get_parameters", "load_state", "set_parameters"]


def get_parameters(model: nn.Module) -> list[NDArray[Any]]:
    """Return copies of all parameters and buffers, in the order of the model's state dict.

    Parameters
    ----------
    model : torch.nn.Module
        The model to read.

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> [array.shape for array in get_parameters(nn.Linear(3, 2))]
    [(2, 3), (2,)]
    """
    return [tensor.detach().cpu().numpy().copy() for tensor in model.state_dict().values()]


def set_parameters(model: nn.Module, arrays: Sequence[NDArray[Any]]) -> None:
    """Overwrite all parameters and buffers of a model; nothing of its old state is left.

    Parameters
    ----------
    model : torch.nn.Module
        The model to write to.
    arrays : sequence of ndarray
        As `get_parameters` returns them.

    Raises
    ------
    SettingsError
        If number or shapes differ; the model is then unchanged.

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
    load_state(model, [torch.tensor(array) for array in arrays])


def load_state(model: nn.Module, tensors: Sequence[Tensor]) -> None:
    """Overwrite all parameters and buffers of a model with tensors, which may be elsewhere.

    Parameters
    ----------
    model : torch.nn.Module
        The model to write to.
    tensors : sequence of Tensor
        In the order of the state dict, with its shapes.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> load_state(model, [torch.ones(2, 3), torch.zeros(2)])
    >>> model(torch.ones(3)).tolist()
    [3.0, 3.0]
    """
    with torch.no_grad():
        for own, tensor in zip(model.state_dict().values(), tensors, strict=True):
            own.copy_(tensor)
