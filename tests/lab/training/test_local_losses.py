"""Tests of the skew-correcting losses and the proximal term against results by hand.

The docstrings of the losses have worked examples.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dubhe_lab.training.local_losses import class_balanced, logit_adjusted
from dubhe_lab.training.loop import sgd, train

LABELS = torch.tensor([0, 0, 0, 1])
LOGITS = torch.tensor([[0.5, 0.0, -1.0], [0.0, 2.0, 0.3], [1.0, 0.0, 0.0], [0.2, 0.1, 0.0]])


def test_with_balanced_labels_nothing_changes() -> None:
    """With balanced labels both losses equal plain cross-entropy."""
    even = torch.tensor([0, 1, 2, 1, 2, 0])
    logits = LOGITS.repeat(2, 1)[:6]
    plain = float(cross_entropy(logits, even))
    for make in (class_balanced, logit_adjusted):
        assert float(make(even, 3)(logits, even)) == pytest.approx(plain)


def trained(**how: Any) -> tuple[nn.Linear, nn.Linear]:
    """Return a model before and after two steps with learning rate .1 on four samples."""
    torch.manual_seed(0)
    before, model = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    model.load_state_dict(before.state_dict())
    given = {"epochs": 2, "batch_size": 4, "optimizer": sgd(0.1), **how}
    train(model, LOGITS, LABELS, generator=np.random.default_rng(0), **given)
    return before, model


def test_the_given_loss_is_minimised() -> None:
    """Training follows the gradient of the given loss, although it reports cross-entropy."""
    loss = class_balanced(LABELS, 3)
    before, model = trained(local_loss=loss)
    weight = before.weight.detach().clone().requires_grad_()
    for _ in range(2):
        (slope,) = torch.autograd.grad(loss(LOGITS @ weight.T, LABELS), weight)
        weight = (weight - 0.1 * slope).detach().requires_grad_()
    torch.testing.assert_close(model.weight, nn.Parameter(weight))


def test_the_proximal_term_pulls_back_to_the_start() -> None:
    """The second step is pulled back by mu times the first step."""
    before, plain = trained()
    _, model = trained(proximal=2.0)
    weight = before.weight.detach().clone().requires_grad_()
    for _ in range(2):
        (slope,) = torch.autograd.grad(cross_entropy(LOGITS @ weight.T, LABELS), weight)
        slope = slope + 2.0 * (weight.detach() - before.weight.detach())
        weight = (weight - 0.1 * slope).detach().requires_grad_()
    torch.testing.assert_close(model.weight, nn.Parameter(weight))
    assert not torch.allclose(model.weight, plain.weight)
