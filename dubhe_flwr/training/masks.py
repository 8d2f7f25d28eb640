"""What dropout leaves out, drawn for each client as it would be where the client trains alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.overrides import TorchFunctionMode

from dubhe_flwr.errors import CohortError
from dubhe_flwr.training.runtime import isolated_rng

__all__ = ["DropoutCall", "apply_masks", "draw_masks", "dropout_calls"]

_WHERE: Final = "A call of dropout changes from step to step, or works in place."


class DropoutCall:
    """One call of dropout in a forward pass.

    Parameters
    ----------
    activations : Tensor
        What it was called with; shape, type and layout decide which numbers are drawn.
    probability : float
        Of leaving an activation out.
    """

    def __init__(self, activations: Tensor, probability: float) -> None:
        self.ones = torch.ones_like(activations, requires_grad=False)
        self.probability = probability

    def draw(self) -> Tensor:
        """Return what is kept, as dropout itself draws it from torch's own random numbers."""
        return dropout(self.ones, self.probability) != 0


class _Dropouts(TorchFunctionMode):
    """Hands each call of dropout that has something to draw to a function."""

    def __init__(self, replacement: Callable[[Tensor, float], Tensor]) -> None:
        super().__init__()
        self._replacement = replacement

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call the function, or what stands for it."""
        kwargs = kwargs or {}
        if func is not dropout:
            return func(*args, **kwargs)
        return self._called(*args, **kwargs)

    def _called(
        self, activations: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return activations
        if inplace:
            raise CohortError(_WHERE)
        return self._replacement(activations, p)


def dropout_calls(forward: Callable[[], object]) -> list[DropoutCall]:
    """Return the calls of dropout of a forward pass, in their order.

    Examples
    --------
    >>> [call.probability for call in dropout_calls(lambda: dropout(torch.rand(3), 0.25))]
    [0.25]
    """
    calls: list[DropoutCall] = []

    def note(activations: Tensor, probability: float) -> Tensor:
        calls.append(DropoutCall(activations, probability))
        return dropout(activations, probability)

    with _Dropouts(note):
        forward()
    return calls


def draw_masks(
    steps: Sequence[Sequence[DropoutCall]], seeds: Sequence[int], device: torch.device
) -> list[list[Tensor]]:
    """Return what each client keeps in each call of dropout of each step.

    Parameters
    ----------
    steps : sequence of sequence of DropoutCall
        The calls of each step.
    seeds : sequence of int, length K
        Those of the clients, as in `isolated_rng`.
    device : torch.device
        Where they would train.

    Returns
    -------
    list of list of Tensor of bool, shape (K, ...)
        A mask for each call, by step. One byte for each activation and client.
    """
    if not any(steps):
        return [[] for _ in steps]
    drawn = []
    for seed in seeds:
        with isolated_rng(device, seed):
            drawn.append([[call.draw() for call in calls] for calls in steps])
    return [
        [torch.stack(masks) for masks in zip(*clients, strict=True)]
        for clients in zip(*drawn, strict=True)
    ]


def apply_masks(forward: Callable[[], Tensor], masks: Sequence[Tensor]) -> Tensor:
    """Return what a forward pass gives with these masks in place of drawn ones.

    Raises
    ------
    CohortError
        If dropout is called at other places than where the masks were drawn for.

    Examples
    --------
    >>> apply_masks(lambda: dropout(torch.ones(2), 0.5), [torch.tensor([True, False])])
    tensor([2., 0.])
    """
    if not masks:
        return forward()  # within vmap, a draw that was not foreseen is an error
    waiting: Iterator[Tensor] = iter(masks)

    def replace(activations: Tensor, probability: float) -> Tensor:
        mask = next(waiting, None)
        if mask is None or mask.shape != activations.shape:
            raise CohortError(_WHERE)
        if probability == 1:
            return activations * 0
        return activations * mask.to(activations.dtype).div(1 - probability)

    with _Dropouts(replace):
        result = forward()
    if next(waiting, None) is not None:
        raise CohortError(_WHERE)
    return result
