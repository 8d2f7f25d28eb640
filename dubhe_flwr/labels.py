"""Label counts of a client, from wherever its labels lie."""

from collections.abc import Mapping
from math import prod
from numbers import Integral
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError

_CERTAIN: Final = 10  # rows that are one-hot are not so by chance


def count_labels(data: Any, num_classes: int, *, label: str = "label") -> NDArray[np.int64]:
    """Return how many samples of each class there are: what `DubheMod` asks a client for.

    Parameters
    ----------
    data : array_like of int, shape (..., M), or a data set
        The labels, from 0 to C-1; or a torch ``Dataset`` or ``DataLoader``, or a partition of
        Flower Datasets. A torch data set without ``targets``, ``labels`` or ``tensors`` is read
        sample by sample, as pairs whose second part is the label.
    num_classes : int
        ``C``.
    label : str (default: "label")
        The column of the labels in a partition of Flower Datasets.

    Returns
    -------
    ndarray of int64, shape (..., C)

    Raises
    ------
    DataError
        If the labels are no whole numbers from 0 to C-1, or cannot be found.

    Examples
    --------
    >>> count_labels([0, 3, 3, 2], 4).tolist()
    [1, 0, 1, 2]
    """
    if not (isinstance(num_classes, Integral) and num_classes >= 1):
        raise DataError(f"num_classes={num_classes!r} must be a whole number from 1 up.")
    try:
        labels = np.asarray(labels_of(data, label))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"The labels of a {type(data).__name__} cannot be found ({error}); give an array of "
            f"them, or name their column if it is not {label!r}."
        ) from None
    whole = labels.astype(np.int64) if labels.dtype.kind in "iufb" else np.empty(0)
    if labels.ndim == 0 or not np.array_equal(whole, labels):
        raise DataError(
            f"The labels are {labels.dtype} of shape {labels.shape}; give whole numbers, one a "
            "sample."
        )
    if whole.size and not 0 <= whole.min() <= whole.max() < num_classes:
        raise DataError(
            f"There are labels from {whole.min()} to {whole.max()}; num_classes={num_classes} "
            f"classes are numbered 0 to {num_classes - 1}; raise num_classes, or number from 0."
        )
    is_wide = whole.ndim == 2 and whole.shape[1] == num_classes > 1 and len(whole) >= _CERTAIN
    if is_wide and (np.sort(whole)[:, -2:] == [0, 1]).all():
        raise DataError("The labels are one-hot; give labels.argmax(axis=1).")
    rows = whole.astype(np.int64).reshape(prod(whole.shape[:-1]), whole.shape[-1])
    offsets = np.arange(len(rows))[:, None] * num_classes
    counts = np.bincount((rows + offsets).ravel(), minlength=len(rows) * num_classes)
    return counts.reshape(*whole.shape[:-1], num_classes)


def labels_of(data: Any, label: str) -> Any:
    """Return the labels of a data set; of an array, the array."""
    if hasattr(data, "column_names"):  # of Flower Datasets; its transforms want all columns
        return data.with_format(None)[label]
    for name in ("targets", "labels"):
        if hasattr(data, name):
            return _flat(getattr(data, name))
    if hasattr(data, "tensors"):
        return _flat(data.tensors[-1])
    if hasattr(data, "dataset") and (hasattr(data, "indices") or hasattr(data, "sampler")):
        own = np.asarray(labels_of(data.dataset, label))  # of a torch Subset, or a DataLoader
        usual = getattr(data, "sampler", own)
        sampler = getattr(getattr(data, "batch_sampler", None), "sampler", usual)
        if hasattr(sampler, "__len__") and len(sampler) != len(own):
            raise TypeError(f"its sampler takes {len(sampler)} of {len(own)} samples")
        return own[data.indices] if hasattr(data, "indices") else own
    if hasattr(data, "__array__") or isinstance(data, list | tuple):
        return data
    each = (data[index] for index in range(len(data)))
    return [own[label if isinstance(own, Mapping) else 1] for own in each]


def _flat(labels: Any) -> NDArray[Any]:
    """Return labels (M, 1) as (M,)."""
    own = np.asarray(labels)
    return own[:, 0] if own.ndim == 2 and own.shape[1] == 1 else own
