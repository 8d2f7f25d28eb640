"""Clients that train together end where each of them ends alone."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from dubhe_flwr.errors import CohortError
from dubhe_flwr.training import adam, build_model, sgd, train
from dubhe_flwr.training.cohort import train_cohort
from dubhe_flwr.training.models import load_state

State = list[Tensor]


def samples_of(count: int, shape: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Return samples of three classes."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.normal(size=(count, *shape)))
    return images.to(torch.get_default_dtype()), torch.from_numpy(rng.integers(0, 3, count))


def starts(model: nn.Module, number: int) -> list[State]:
    """Return states that differ from client to client."""
    return [
        [
            tensor * (1 + 0.1 * client) if tensor.is_floating_point() else tensor.clone()
            for tensor in model.state_dict().values()
        ]
        for client in range(number)
    ]


def alone(
    model: nn.Module, states: list[State], samples: list[tuple[Tensor, Tensor]], **how: Any
) -> tuple[list[State], list[float]]:
    """Train one after the other."""
    ends, losses = [], []
    for seed, (state, own) in enumerate(zip(states, samples, strict=True)):
        load_state(model, state)
        losses.append(train(model, *own, generator=np.random.default_rng(seed), **how))
        ends.append([tensor.clone() for tensor in model.state_dict().values()])
    return ends, losses


def together(
    model: nn.Module, states: list[State], samples: list[tuple[Tensor, Tensor]], **how: Any
) -> tuple[list[State], list[float]]:
    """Train in the same steps."""
    generators = [np.random.default_rng(seed) for seed in range(len(states))]
    ends = train_cohort(model, states, samples, generators=generators, **how)
    return [state for state, _ in ends], [loss for _, loss in ends]


def check(
    model: nn.Module,
    shape: tuple[int, ...],
    *,
    clients: int = 3,
    count: int = 10,
    tolerance: float = 1e-9,
    **how: Any,
) -> None:
    """Compare both ways, of which each moves the parameters far more than they differ."""
    model = model.double()
    samples = [
        (images.double(), labels)
        for images, labels in (samples_of(count, shape, seed) for seed in range(clients))
    ]
    states = starts(model, clients)
    how = {"batch_size": 4, **how}
    ends, losses = alone(model, states, samples, **how)
    ends_together, losses_together = together(model, states, samples, **how)
    assert losses_together == pytest.approx(losses, abs=tolerance)
    for begin, end, end_together in zip(states, ends, ends_together, strict=True):
        assert any((a - b).abs().max() > 1e-4 for a, b in zip(begin, end, strict=True))
        for one, other in zip(end, end_together, strict=True):
            torch.testing.assert_close(other, one, atol=tolerance, rtol=tolerance)


def momentum(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Make an optimizer with momentum and weight decay."""
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def decayed_weights(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Make an optimizer that treats weights and biases apart, by their dimensions."""
    own = list(parameters)
    return AdamW(
        [
            {"params": [p for p in own if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in own if p.ndim == 1], "weight_decay": 0.0, "lr": 1e-2},
        ]
    )


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], Optimizer] | None] = {
    "default": None,
    "adam": adam(1e-2),
    "adam-amsgrad": lambda parameters: Adam(parameters, lr=1e-2, amsgrad=True),
    "sgd": sgd(0.1),
    "momentum": momentum,
    "groups": decayed_weights,
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_digits_model(optimizer: Any) -> None:
    """Dense layers, with each optimizer and a smaller last batch, over two passes."""
    check(build_model("digits", 3, seed=0), (1, 8, 8), epochs=2, optimizer=optimizer)


def test_mnist_network() -> None:
    """Convolutions, pooling and dropout: each client draws the dropout that it draws alone."""
    check(build_model("mnist", 3, seed=0), (1, 28, 28), clients=2, count=6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_residual_network(norm: str) -> None:
    """ResNet18 with either normalisation; the statistics of batches are each client's own."""
    model = build_model((3, 16, 16), 3, seed=0, norm=norm)
    # Gradients that are zero but for rounding come with batch statistics; Adam would enlarge them.
    how: dict[str, Any] = {"optimizer": sgd(0.05), "count": 8} if norm == "batch" else {"count": 4}
    check(model, (3, 16, 16), clients=2, tolerance=1e-8, **how)


def test_buffers_and_frozen_parameters_are_each_clients_own() -> None:
    """Buffers that are written to come out as alone, also those of integers."""
    normal = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    check(normal, (4,), count=8, optimizer=sgd(0.1))
    frozen = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    frozen[0].weight.requires_grad_(False)
    check(frozen, (4,), optimizer=sgd(0.1))


def test_mixed_precision() -> None:
    """Parameters stay in float32 and come out as close as bfloat16 lets them."""
    model, shape = build_model("digits", 3, seed=0), (1, 8, 8)
    samples = [samples_of(8, shape, seed) for seed in range(2)]
    states = starts(model, 2)
    how: dict[str, Any] = {"optimizer": sgd(0.1), "batch_size": 4}
    ends, _ = together(model, states, samples, precision="bfloat16", **how)
    exact, _ = together(model, states, samples, **how)
    expected, _ = alone(model, states, samples, precision="bfloat16", **how)
    for end, one, other in zip(ends, expected, exact, strict=True):
        assert {tensor.dtype for tensor in end} == {torch.float32}
        assert not torch.equal(end[0], other[0])
        torch.testing.assert_close(end, one, atol=5e-3, rtol=5e-2)


class Unsteady(nn.Module):
    """Computes what depends on its values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        """Choose by a value."""
        logits: Tensor = self.layer(images)
        return logits if logits.sum() > 0 else 2 * logits


class Replacing(Unsteady):
    """Puts a new tensor in the place of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, images: Tensor) -> Tensor:
        """Note the mean."""
        logits: Tensor = self.layer(images)
        self.mean = logits.detach().mean(dim=0)
        return logits


def tied() -> nn.Module:
    """Return a model with one parameter in two places."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return nn.Sequential(nn.Linear(4, 3), model)


RANDOM = nn.Sequential(nn.Linear(4, 3), nn.AlphaDropout(0.5))
IN_PLACE = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5, inplace=True))


@pytest.mark.parametrize(
    ("model", "optimizer", "error", "reason"),
    [
        pytest.param(Unsteady(), None, RuntimeError, "vmap", id="control flow"),
        pytest.param(Replacing(), None, CohortError, "replaces buffers", id="buffer"),
        pytest.param(tied(), None, CohortError, "shared by several modules", id="tied"),
        pytest.param(IN_PLACE, None, CohortError, "works in place", id="in place"),
        pytest.param(RANDOM, None, RuntimeError, "vmap", id="random"),
        pytest.param(nn.Linear(4, 3), torch.optim.LBFGS, CohortError, "LBFGS may mix", id="LBFGS"),
    ],
)
def test_refuses_what_it_cannot_train_alike(
    model: nn.Module, optimizer: Any, error: type[Exception], reason: str
) -> None:
    """A CohortError that says why, or an error of torch; never other results."""
    samples = [samples_of(4, (4,), seed) for seed in range(2)]
    with pytest.raises(error, match=reason):
        together(model, starts(model, 2), samples, optimizer=optimizer)
