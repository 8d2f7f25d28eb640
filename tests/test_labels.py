"""Labels are counted wherever they lie."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset

from dubhe_flwr import count_labels
from dubhe_flwr.errors import DataError

LABELS = [0, 3, 3, 2]
COUNTED = [1, 0, 1, 2]


class Pairs(Dataset[Any]):
    """A data set that tells nothing but its samples."""

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(2), LABELS[index]


class Partition:
    """Like a partition of Flower Datasets, whose transform wants the images as well."""

    column_names = ("image", "label", "fine")

    def __init__(self, labels: list[int], raw: bool = False) -> None:
        self.labels_, self.raw = labels, raw

    def with_format(self, kind: None) -> "Partition":
        return Partition(self.labels_, raw=True)

    def __getitem__(self, column: str) -> list[int]:
        assert self.raw
        return {"label": self.labels_, "fine": self.labels_[::-1]}[column]


class Split(Dataset[Any]):
    """A part of a data set, as it is cut by hand."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.idxs = dataset, [1, 2, 3, 4]

    def __len__(self) -> int:
        return len(self.idxs)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.idxs[index]]


TENSORS = TensorDataset(torch.zeros(4, 2), torch.tensor(LABELS))


@pytest.mark.parametrize(
    "data",
    [
        LABELS,
        np.array(LABELS, dtype=np.uint8),
        torch.tensor(LABELS),
        TENSORS,
        Pairs(),
        SimpleNamespace(targets=LABELS),
        Subset(TensorDataset(torch.zeros(6, 2), torch.tensor([1, *LABELS, 1])), [1, 2, 3, 4]),
        DataLoader(TENSORS, batch_size=3),
        Split(TensorDataset(torch.zeros(6, 2), torch.tensor([1, *LABELS, 1]))),
        SimpleNamespace(labels=np.array(LABELS)[:, None]),
        Partition(LABELS),
    ],
    ids=lambda data: type(data).__name__,
)
def test_labels_are_counted_wherever_they_lie(data: Any) -> None:
    """Arrays, data sets of torch, partitions of Flower Datasets."""
    assert count_labels(data, 4).tolist() == COUNTED


def test_several_clients_are_counted_at_once() -> None:
    """Classes without a sample count zero, and so does a client without one."""
    counts = count_labels([[3, 3, 0], [1, 1, 1]], 5)
    assert counts.tolist() == [[1, 0, 0, 2, 0], [0, 3, 0, 0, 0]]
    assert count_labels([], 2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([0, 4], "labels from 0 to 4; num_classes=4 classes are numbered 0 to 3; raise"),
        (np.eye(4, dtype=int)[[1, 3] * 5], r"one-hot; give labels.argmax\(axis=1\)"),
        ([0.5], "give whole numbers"),
        (["cat"], "give whole numbers"),
        (3, "cannot be found"),
        (DataLoader(TENSORS, sampler=SubsetRandomSampler([0])), "its sampler takes 1 of 4 samples"),
        (Partition(LABELS), "name their column if it is not 'species'"),
    ],
)
def test_what_are_no_labels_is_said(data: Any, sentence: str) -> None:
    """With what to give in their place."""
    with pytest.raises(DataError, match=sentence):
        count_labels(data, 4, label="species")
