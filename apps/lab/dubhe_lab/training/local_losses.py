"""Losses that correct for a client's own label skew, to use instead of plain cross-entropy."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

LocalLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Returns the loss of a batch from logits (B, C) and labels (B,)."""

_TEMPERATURE: Final = 0.5  # tau


def class_balanced(labels: Tensor, num_classes: int) -> LocalLoss:
    """Return cross-entropy that weights class c by ``M / (C' M_c)``, for a client with M labels.

    C' is the number of classes that the client holds; each of them gets the same total weight. A
    batch's loss is the weighted mean.

    Examples
    --------
    >>> loss = class_balanced(torch.tensor([0, 0, 0, 1]), 3)
    >>> logits = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    >>> round(float(loss(logits, torch.tensor([0, 1]))), 3)  # (1.099 x 2/3 + 0.240 x 2) / (8/3)
    0.454
    """
    counts = torch.bincount(labels, minlength=num_classes).float()
    held = counts > 0
    weights = torch.where(held, len(labels) / (held.sum() * counts.clamp(min=1)), 0.0)

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(logits, target, weight=weights.to(logits.device))

    return loss


def logit_adjusted(labels: Tensor, num_classes: int) -> LocalLoss:
    """Return cross-entropy on logits ``z_c + tau log p_c``, where p are a client's label shares.

    After Menon et al., "Long-tail learning via logit adjustment", ICLR 2021
    (https://arxiv.org/abs/2007.07314), but with the client's own shares. We use tau = 0.5 and count
    one extra sample per class, so that the logarithm is finite for classes without samples.

    Examples
    --------
    >>> loss = logit_adjusted(torch.tensor([0, 0, 0, 1]), 2)  # shares of 4/6 and 2/6
    >>> round(float(loss(torch.zeros(1, 2), torch.tensor([1]))), 3)  # ln(1 + sqrt(2))
    0.881
    """
    shares = (torch.bincount(labels, minlength=num_classes) + 1) / (len(labels) + num_classes)
    offsets = _TEMPERATURE * shares.log()

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(logits + offsets.to(logits.device), target)

    return loss


LOCAL_LOSSES: Final[Mapping[str, Callable[[Tensor, int], LocalLoss]]] = {
    "balanced": class_balanced,
    "adjusted": logit_adjusted,
}
"""Local losses by their name in `TrainingSettings.local_loss`."""
