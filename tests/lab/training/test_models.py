"""Tests of the classifiers, and of their parameters as arrays."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from dubhe_flwr.errors import SettingsError
from dubhe_lab.training.models import build_model, get_parameters, set_parameters


@pytest.mark.parametrize(("num_classes", "size"), [(10, 1_199_882), (62, 1_206_590)])
def test_mnist_model_has_the_published_size(num_classes: int, size: int) -> None:
    """The network has the same number of parameters as Reddi et al.'s, for digits and letters."""
    model = build_model((1, 28, 28), num_classes, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == size
    layers = [layer for layer in model if not isinstance(layer, nn.ReLU)]  # type: ignore[attr-defined]
    assert [type(layer).__name__ for layer in layers] == [
        "Conv2d", "Conv2d", "MaxPool2d", "Dropout", "Flatten", "Linear", "Dropout", "Linear",
    ]  # fmt: skip
    assert [layer.p for layer in layers if isinstance(layer, nn.Dropout)] == [0.25, 0.5]


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 8, 8), (3, 32, 32), (3, 20, 13)])
def test_models_return_a_logit_for_each_class(shape: tuple[int, int, int]) -> None:
    """The model takes images of the shape it was built for."""
    model = build_model(shape, 52, seed=0)
    assert model.training
    assert model(torch.zeros(4, *shape)).shape == (4, 52)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28)])
def test_initial_parameters_follow_the_seed(shape: tuple[int, int, int]) -> None:
    """The same seed gives the same model, and torch's own random state stays."""
    before = torch.get_rng_state()
    first, second, other = (get_parameters(build_model(shape, 10, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
    assert not any(np.array_equal(*pair) for pair in zip(first, other, strict=True))


def test_colour_images_get_resnet18() -> None:
    """ResNet18 has its published size for ten classes, and keeps no batch statistics."""
    model = build_model((3, 32, 32), 10, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_181_642
    assert not list(model.buffers())


def model_with_buffers() -> nn.Module:
    """Return a model with parameters, buffers and a zero-dimensional counter."""
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def test_parameters_and_buffers_are_copied() -> None:
    """A model with another model's arrays computes the same outputs, bit by bit."""
    source, target = model_with_buffers(), model_with_buffers()
    images = torch.randn(5, 1, 4, 4)
    source(images)
    set_parameters(target, get_parameters(source))
    assert torch.equal(source.eval()(images), target.eval()(images))
    assert all(
        torch.equal(source.state_dict()[name], tensor)
        for name, tensor in target.state_dict().items()
    )


def test_averages_and_read_only_arrays_are_accepted() -> None:
    """Arrays of another type, as averaging leaves them, and read-only arrays are accepted."""
    model = model_with_buffers()
    arrays = [np.full(array.shape, 1.0) for array in get_parameters(model)]
    for array in arrays:
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_parameters(model, arrays)
    assert model.state_dict()["1.num_batches_tracked"].item() == 1
    assert model.state_dict()["0.weight"].dtype == torch.float32


def test_arrays_that_do_not_fit_are_refused() -> None:
    """Too few arrays or a wrong shape are refused, and the model stays unchanged."""
    model = nn.Linear(3, 2)
    before = get_parameters(model)
    with pytest.raises(SettingsError, match="1 arrays do not fit a model of 2"):
        set_parameters(model, [np.ones((2, 3))])
    with pytest.raises(SettingsError, match=r"shape \(3,\) does not fit bias of shape \(2,\)"):
        set_parameters(model, [np.ones((2, 3)), np.ones(3)])
    assert np.array_equal(get_parameters(model)[0], before[0])
