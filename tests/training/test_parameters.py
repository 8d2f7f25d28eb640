"""Tests of parameters as arrays."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.training import get_parameters, set_parameters


def model_with_buffers() -> nn.Module:
    """Return a model that holds parameters, buffers and a counter of no dimension."""
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def test_copies_everything() -> None:
    """A model that was given another one's arrays computes what that one does, bit by bit."""
    source, target = model_with_buffers(), model_with_buffers()
    images = torch.randn(5, 1, 4, 4)
    source(images)
    set_parameters(target, get_parameters(source))
    assert torch.equal(source.eval()(images), target.eval()(images))
    assert all(
        torch.equal(source.state_dict()[name], tensor)
        for name, tensor in target.state_dict().items()
    )


def test_arrays_are_copies() -> None:
    """Training on leaves arrays that were read before as they are, and the other way round."""
    model = nn.Linear(2, 2)
    arrays = get_parameters(model)
    before = arrays[0].copy()
    with torch.no_grad():
        model.weight += 1
    assert np.array_equal(arrays[0], before)
    set_parameters(model, arrays)
    arrays[0][:] = 9
    assert np.array_equal(get_parameters(model)[0], before)


def test_takes_averages_and_read_only_arrays() -> None:
    """Arrays of another type, as averaging leaves them, and read-only ones are taken silently."""
    model = model_with_buffers()
    arrays = [np.full(array.shape, 1.0) for array in get_parameters(model)]
    for array in arrays:
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_parameters(model, arrays)
    assert model.state_dict()["1.num_batches_tracked"].item() == 1
    assert model.state_dict()["0.weight"].dtype == torch.float32


def test_wrong_number_is_refused() -> None:
    """Arrays of another model are refused with both numbers."""
    model = model_with_buffers()
    with pytest.raises(SettingsError, match="8 arrays do not fit a model of 9"):
        set_parameters(model, get_parameters(model)[:-1])


def test_wrong_shape_is_named_and_nothing_changed() -> None:
    """A wrong shape is refused with the parameter's name, before anything is written."""
    model = nn.Linear(3, 2)
    before = get_parameters(model)
    with pytest.raises(SettingsError, match=r"shape \(3,\) does not fit bias of shape \(2,\)"):
        set_parameters(model, [np.ones((2, 3)), np.ones(3)])
    assert np.array_equal(get_parameters(model)[0], before[0])
