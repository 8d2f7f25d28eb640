"""Local training of several clients at once: their parameters stacked, one step for all."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy, dropout
from torch.optim import ASGD, SGD, Adadelta, Adam, Adamax, AdamW, NAdam, Optimizer, RAdam, RMSprop
from torch.overrides import TorchFunctionMode

from dubhe_flwr.errors import CohortError
from dubhe_flwr.training.loop import (
    OptimizerFactory,
    adam,
    check_training,
    isolated_rng,
    mixed_precision,
)

__all__ = ["train_cohort"]

_ELEMENTWISE: Final = (ASGD, SGD, Adadelta, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop)
"""With these, a step of stacked parameters is the step of each client's own."""

_CHANGES: Final = "A call of dropout changes from step to step, or works in place."


def train_cohort(
    model: nn.Module,
    states: Sequence[Sequence[Tensor]],
    samples: Sequence[tuple[Tensor, Tensor]],
    *,
    generators: Sequence[np.random.Generator],
    epochs: int = 1,
    batch_size: int = 8,
    optimizer: OptimizerFactory | None = None,
    precision: str = "float32",
) -> list[tuple[list[Tensor], float]]:
    """Return state and loss of each of K clients after training, all in the same steps.

    The updates are those of `train` with each client's samples, equally many, and its generator,
    within the tolerance of floating-point numbers. What the model holds is neither used nor kept:
    `states` is what each client begins with, in the order of the state dict. A `CohortError` says
    why a model or an optimizer cannot be trained so; torch has errors of its own.
    """
    count = len(samples[0][1])
    check_training(count, epochs, batch_size, precision)
    device = next(model.parameters()).device
    mixed = mixed_precision(device, precision)
    images = torch.stack([images for images, _ in samples]).to(device)
    labels = torch.stack([labels for _, labels in samples]).to(device)
    seeds = [int(generator.integers(2**63)) for generator in generators]
    orders = [
        torch.from_numpy(np.stack([generator.permutation(count) for generator in generators]))
        for _ in range(epochs)
    ]
    batches = [
        batch for order in orders for batch in torch.split(order.to(device), batch_size, dim=1)
    ]
    stacked = _stacked(model, states)
    stepper = _optimizer(optimizer or adam(), model, stacked)
    model.train()
    with mixed:
        masks = _masks(model, images[0], [batch.shape[1] for batch in batches], seeds)

    def logits_of_one(
        state: Mapping[str, Tensor], images: Tensor, masks: Sequence[Tensor]
    ) -> Tensor:
        waiting = list(masks)
        # Without masks there is nothing to replace; within vmap, a draw would be an error.
        with _Dropouts(partial(_keep, waiting)) if masks else nullcontext():
            logits: Tensor = functional_call(model, dict(state), (images,))
        if waiting:
            raise CohortError(_CHANGES)
        return logits

    logits_of_all = vmap(logits_of_one)
    rows = torch.arange(len(samples), device=device)[:, None]
    history = []
    for batch, dropped in zip(batches, masks, strict=True):
        stepper.zero_grad()
        with mixed:
            logits = logits_of_all(stacked, images[rows, batch], dropped)
            # Not within vmap, which knows this loss only in pieces.
            each = cross_entropy(
                logits.flatten(0, 1), labels[rows, batch].flatten(), reduction="none"
            )
        losses = each.view(batch.shape).mean(dim=1)
        # The gradient of the sum, at the parameters of one client, is that of its own loss.
        losses.sum().backward()  # type: ignore[no-untyped-call]
        stepper.step()
        history.append(losses.detach())
    means = torch.stack(history).mean(dim=0).tolist()
    ends = [stacked[name].detach().unbind() for name in model.state_dict()]
    return [(list(state), loss) for *state, loss in zip(*ends, means, strict=True)]


def _stacked(model: nn.Module, states: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
    """Return parameters and buffers by name, with the clients as their first dimension."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(model.state_dict())
    if unknown := set(names) - set(own):
        raise CohortError(f"{min(unknown)} is shared by several modules.")
    return {
        name: torch.stack(list(values)).detach().requires_grad_(own[name].requires_grad)
        for name, values in zip(names, zip(*states, strict=True), strict=True)
    }


def _optimizer(
    factory: OptimizerFactory, model: nn.Module, stacked: Mapping[str, Tensor]
) -> Optimizer:
    """Return the model's optimizer, turned over to the stacked parameters."""
    stepper = factory(model.parameters())
    if type(stepper) not in _ELEMENTWISE:
        raise CohortError(f"A step of {type(stepper).__name__} may mix parameters.")
    replaced = {id(parameter): stacked[name] for name, parameter in model.named_parameters()}
    for group in stepper.param_groups:
        group["params"] = [replaced[id(parameter)] for parameter in group["params"]]
    return stepper


def _masks(
    model: nn.Module, images: Tensor, batch_sizes: Sequence[int], seeds: Sequence[int]
) -> list[list[Tensor]]:
    """Return a mask (K, ...) of what each client keeps, for each call of dropout of each step.

    A forward pass of one client tells where dropout is called. Shape, type and layout of what it
    is called with decide which numbers are drawn; the seeds are those of the clients.
    """
    buffers = [(name, id(buffer)) for name, buffer in model.named_buffers()]
    calls: dict[int, list[tuple[Tensor, float]]] = {}
    for size in set(batch_sizes):
        noted = calls[size] = []
        with torch.no_grad(), isolated_rng(images.device, 0), _Dropouts(partial(_note, noted)):
            model(images[:size])
    if [(name, id(buffer)) for name, buffer in model.named_buffers()] != buffers:
        raise CohortError("A forward pass replaces buffers of the model.")
    drawn = []
    for seed in seeds:
        with isolated_rng(images.device, seed):
            drawn.append(
                [[dropout(ones, p) != 0 for ones, p in calls[size]] for size in batch_sizes]
            )
    return [
        [torch.stack(masks) for masks in zip(*clients, strict=True)]
        for clients in zip(*drawn, strict=True)
    ]


def _note(calls: list[tuple[Tensor, float]], activations: Tensor, probability: float) -> Tensor:
    calls.append((torch.ones_like(activations), probability))
    return dropout(activations, probability)


def _keep(masks: list[Tensor], activations: Tensor, probability: float) -> Tensor:
    """Return what dropout does with the next mask in place of one that it draws."""
    if not masks or masks[0].shape != activations.shape:
        raise CohortError(_CHANGES)
    # With probability 1 nothing is kept.
    return activations * masks.pop(0).to(activations.dtype).div(1 - probability or 1)


class _Dropouts(TorchFunctionMode):
    """Hands each call of dropout that has something to draw to a function."""

    def __init__(self, replacement: Callable[[Tensor, float], Tensor]) -> None:
        super().__init__()
        self._replacement = replacement

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call the function, or what stands for it."""
        return (self._called if func is dropout else func)(*args, **(kwargs or {}))

    def _called(
        self, activations: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return activations
        if inplace:
            raise CohortError(_CHANGES)
        return self._replacement(activations, p)
