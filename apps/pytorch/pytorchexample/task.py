"""pytorchexample: model, data and training, as in any Flower / PyTorch app."""

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from flwr.app import Context
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Loader = DataLoader[tuple[torch.Tensor, ...]]


class Net(nn.Module):
    """A small convolutional network for 8 x 8 grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        logits: torch.Tensor = self.fc2(x)
        return logits


@cache
def load_partitions(num_partitions: int) -> list[TensorDataset]:
    """Split the digits so that most clients hold mostly two classes."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(42)
    shares = rng.dirichlet([0.2] * 10, size=num_partitions)
    indices: list[list[int]] = [[] for _ in range(num_partitions)]
    for label in range(10):
        of_label = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.cumsum(shares[:, label] / shares[:, label].sum())[:-1] * len(of_label)
        for partition, part in enumerate(np.split(of_label, cuts.astype(int))):
            indices[partition].extend(part.tolist())
    pixels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    targets = torch.tensor(labels)
    return [TensorDataset(pixels[part], targets[part]) for part in indices]


def load_data(partition_id: int, num_partitions: int, batch_size: int) -> tuple[Loader, Loader]:
    """Load a partition of the digits, as loaders for training and testing."""
    partition = load_partitions(num_partitions)[partition_id]
    train, test = train_test_split(range(len(partition)), test_size=0.2, random_state=42)
    picked = [
        TensorDataset(*(tensor[list(part)] for tensor in partition.tensors))
        for part in (train, test)
    ]
    return (
        DataLoader(picked[0], batch_size=batch_size, shuffle=True),
        DataLoader(picked[1], batch_size=batch_size),
    )


def load_own_data(context: Context) -> tuple[Loader, Loader]:
    """Load the partition of a node."""
    return load_data(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
        int(context.run_config["batch-size"]),
    )


def train(net: nn.Module, loader: Loader, epochs: int, lr: float, device: torch.device) -> float:
    """Train the model and return the mean loss."""
    net.to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / max(1, epochs * len(loader))


def test(net: nn.Module, loader: Loader, device: torch.device) -> tuple[float, float]:
    """Return the mean loss and the accuracy."""
    net.to(device).eval()
    loss, correct, total = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            logits = net(images.to(device))
            loss += F.cross_entropy(logits, labels.to(device), reduction="sum").item()
            correct += int((logits.argmax(dim=1) == labels.to(device)).sum())
            total += len(labels)
    return loss / max(1, total), correct / max(1, total)
