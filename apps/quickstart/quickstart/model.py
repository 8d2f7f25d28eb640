"""The model, its training and its test."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

BATCH_SIZE = 8


def new_model() -> nn.Module:
    """Return the model with its initial parameters, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def get_parameters(model: nn.Module) -> list[NDArray[np.float32]]:
    """Return the parameters in Flower's format."""
    return [parameter.detach().cpu().numpy() for parameter in model.parameters()]


def set_parameters(model: nn.Module, parameters: list[NDArray[np.float32]]) -> None:
    """Load parameters received from Flower into the model."""
    for own, received in zip(model.parameters(), parameters, strict=True):
        own.data = torch.from_numpy(np.array(received))


def train(
    model: nn.Module,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    learning_rate: float,
    seed: int,
) -> float:
    """Train for one epoch, on the GPU if there is one, and return the mean loss."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    losses = []
    for batch in torch.split(order, BATCH_SIZE):
        optimizer.zero_grad()
        logits = model(torch.from_numpy(images)[batch].to(device))
        loss = cross_entropy(logits, torch.from_numpy(labels)[batch].to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.inference_mode()
def test(
    model: nn.Module, images: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the loss and the accuracy."""
    model.eval()
    logits, truth = model(torch.from_numpy(images)), torch.from_numpy(labels)
    accuracy = (logits.argmax(dim=1) == truth).float().mean()
    return float(cross_entropy(logits, truth)), float(accuracy)
