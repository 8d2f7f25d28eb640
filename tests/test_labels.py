"""Labels are counted in any kind of data set."""

from collections import UserList
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from dubhe_flwr import count_labels
from dubhe_flwr.errors import DataError

LABELS = [0, 3, 3, 2]
COUNTED = [1, 0, 1, 2]


class Samples(Dataset[Any]):
    """A data set that offers only its samples, and what is given."""

    def __init__(self, sample: Callable[[int], Any], **given: Any) -> None:
        self.sample = sample
        vars(self).update(given)

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


class Partition:
    """Like a partition of Flower Datasets, whose transform wants the images as well."""

    column_names = ("image", "label", "fine")

    def __init__(self, labels: list[int], raw: bool = False) -> None:
        self.labels_, self.raw = labels, raw

    def with_format(self, kind: None) -> "Partition":
        return Partition(self.labels_, raw=True)

    def __len__(self) -> int:
        return len(self.labels_)

    def __getitem__(self, column: str) -> list[int]:
        assert self.raw
        return {"label": self.labels_, "fine": self.labels_[::-1]}[column]


class Stream(IterableDataset[Any]):
    """Like a streaming data set of Hugging Face, which has neither a length nor whole columns."""

    column_names = None

    def __iter__(self) -> Iterator[Any]:
        return iter([{"image": None, "label": label} for label in LABELS])


TENSORS = TensorDataset(torch.zeros(4, 2), torch.tensor(LABELS))


@pytest.mark.parametrize(
    "data",
    [
        np.array(LABELS, dtype=np.uint8),
        torch.tensor(LABELS),
        TENSORS,
        Samples(lambda index: (None, LABELS[index])),
        Samples(lambda index: {"label": LABELS[index]}),
        Samples(lambda index: (None, LABELS[index]), targets=[0] * 4, target_transform=abs),
        SimpleNamespace(targets=LABELS),
        Subset(TensorDataset(torch.zeros(6, 2), torch.tensor([1, *LABELS, 1])), [1, 2, 3, 4]),
        DataLoader(TENSORS, batch_size=3),
        DataLoader(TensorDataset(torch.zeros(4, 2), torch.tensor(LABELS).float()[:, None])),
        Samples(TENSORS.__getitem__, dataset=TensorDataset(torch.ones(6, 1)), idxs=[1, 2, 3, 4]),
        SimpleNamespace(labels=np.array(LABELS)[:, None]),
        Partition(LABELS),
        UserList(LABELS),  # a sequence that is no array, like a Column of Flower Datasets
        DataLoader(Partition(LABELS)),  # type: ignore[arg-type]
        Stream(),
        DataLoader(Stream()),
        pd.Series(LABELS, index=[7, 9, 9, 8]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_labels_are_counted_wherever_they_lie(data: Any) -> None:
    """Labels are counted in arrays, torch data sets and Flower Datasets partitions."""
    assert count_labels(data, 4).tolist() == COUNTED


def test_classes_without_a_sample_count_zero() -> None:
    """Without any sample, all classes count zero."""
    assert count_labels([1, 1], 3).tolist() == [0, 2, 0]
    assert count_labels([], 2).tolist() == [0, 0]


SEVERAL = np.array([[1, 1, 0, 0], [0, 1, 0, 1]])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([0, 41], "Not all of the 2 labels are from 0 to 3, as num_classes=4 requires; raise num"),
        ([-41, 0], "Not all of the 2 labels are from 0 to 3"),
        (np.eye(4, dtype=int)[[1, 3]], r"shape \(2, 4\), not \(M,\): pass one whole number"),
        (np.full((5, 7), 41.5), r"shape \(5, 7\), not \(M,\): pass one whole number"),
        (np.array(41), r"shape \(\), not \(M,\): pass one whole number for each sample"),
        (SimpleNamespace(labels=SEVERAL), r"shape \(2, 4\)"),
        ([0.5, 41], r"float64 of shape \(2,\); pass whole numbers, one for each"),
        (["41"], r"strings, of shape \(1,\); number the classes from 0"),
        (pd.Series(["41", "2"]), r"strings, of shape \(2,\); number the classes from 0"),
        (TensorDataset(*TENSORS.tensors, torch.ones(4)), "has 3 tensors, not two; pass the one"),
        (Samples(TENSORS.__getitem__, labels=["cat"]), "of 4 samples has 1 labels; pass an array"),
        ([{"label": 41}], r"object of shape \(1,\); pass whole numbers"),
        ({"train": Partition(LABELS)}, r"holds several data sets; .* such as splits\['train'\]"),
        ({"image": [0], "label": [41]}, r"A dict is a batch .* such as batch\['species'\]"),
        (
            pd.DataFrame({"species": [41], "size": [3]}),
            r"A DataFrame is a table .* such as frame\['species'\]",
        ),
        (3, r"cannot be found \(TypeError\)"),
        (Samples(lambda _index: int("label 41")), r"cannot be found \(ValueError\)"),
        (DataLoader(TENSORS, sampler=SubsetRandomSampler([0])), "takes 1 of 4 samples; pass an ar"),
        (Partition(LABELS), "name their column if it is not 'species'"),
    ],
)
def test_what_is_no_vector_of_labels_is_refused(data: Any, sentence: str) -> None:
    """The error names the shape and what to give instead, and quotes no label."""
    with pytest.raises(DataError, match=sentence) as error:
        count_labels(data, 4, label="species")
    assert "41" not in str(error.value)


@pytest.mark.filterwarnings("error")
def test_a_missing_label_is_refused_without_a_warning() -> None:
    """NumPy would warn that it cannot cast NaN, with a line of this package."""
    with pytest.raises(DataError, match=r"float64 of shape \(2,\); pass whole numbers"):
        count_labels([0.0, np.nan], 4)
