"""Counts a client's labels in an array, a torch data set or a Flower Datasets partition."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError


def count_labels(data: Any, num_classes: int, *, label: str = "label") -> NDArray[np.int64]:
    """Return the number of samples of each class, in the form that `DubheMod` expects.

    Parameters
    ----------
    data : array_like of int, shape (M,), or a data set
        One label per sample, from 0 to C-1; a torch ``Dataset`` or ``DataLoader``; or a Flower
        Datasets partition or its label column. A streaming data set, or a torch data set without
        ``targets``, ``labels`` or two ``tensors``, or with a ``target_transform``, is read sample
        by sample; the second part of each sample, or its column ``label``, must be its label.
    num_classes : int
        ``C``.
    label : str (default: "label")
        The label column of a Flower Datasets partition.

    Returns
    -------
    ndarray of int64, shape (C,)

    Raises
    ------
    DataError
        If no labels can be found, or they are not whole numbers from 0 to C-1, one per sample. The
        message names types and shapes, and quotes no label.

    Examples
    --------
    >>> count_labels([0, 3, 3, 2], 4).tolist()
    [1, 0, 1, 2]
    """
    if not (isinstance(num_classes, Integral) and num_classes >= 1):
        raise DataError(f"num_classes={num_classes!r} must be a whole number of at least 1.")
    is_frame = hasattr(data, "columns") and hasattr(data, "__array__")
    if isinstance(data, Mapping) and any(hasattr(part, "column_names") for part in data.values()):
        raise DataError(
            f"A {type(data).__name__} holds several data sets; pass one of them, such as "
            f"splits[{next(iter(data))!r}]."
        )
    if isinstance(data, Mapping) or is_frame:
        raise DataError(
            f"A {type(data).__name__} is a {'table' if is_frame else 'batch'} of samples; pass its "
            f"label column, such as {'frame' if is_frame else 'batch'}[{label!r}]."
        )
    try:
        labels = np.asarray(labels_of(data, label))
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - a data set may raise anything, with labels in it
        raise DataError(
            f"The labels of a {type(data).__name__} cannot be found ({type(error).__name__}); pass "
            f"an array of them, or name their column if it is not {label!r}."
        ) from None
    if labels.ndim != 1:
        raise DataError(
            f"The labels have shape {labels.shape}, not (M,): pass one whole number for each "
            "sample."
        )
    with np.errstate(invalid="ignore"):  # a missing label is refused below
        whole = labels.astype(np.int64) if labels.dtype.kind in "iufb" else np.empty(0)
    if labels.dtype.kind in "US" or (labels.size and all(isinstance(x, str) for x in labels)):
        raise DataError(
            f"The labels are strings, of shape {labels.shape}; number the classes from 0, in the "
            "same way on every node, as in [CLASSES.index(label) for label in labels]."
        )
    if not np.array_equal(whole, labels):
        raise DataError(
            f"The labels are {labels.dtype} of shape {labels.shape}; pass whole numbers, one for "
            "each sample."
        )
    if whole.size and not 0 <= whole.min() <= whole.max() < num_classes:
        raise DataError(
            f"Not all of the {len(whole)} labels are from 0 to {num_classes - 1}, as num_classes="
            f"{num_classes} requires; raise num_classes, or number the classes from 0."
        )
    return np.bincount(whole, minlength=num_classes)


def labels_of(data: Any, label: str) -> Any:
    """Return a data set's labels, or an array unchanged."""
    has_length = hasattr(data, "__len__")  # a streaming data set has none
    # Flower Datasets, whose transforms expect all columns
    if hasattr(data, "column_names") and has_length:
        return data.with_format(None)[label][:]
    if getattr(data, "target_transform", None) is None:
        for name in ("targets", "labels"):
            if hasattr(data, name):
                return _one_each(_flat(getattr(data, name)), data)
    if hasattr(data, "tensors"):
        if len(data.tensors) != 2:
            raise DataError(
                f"A {type(data).__name__} has {len(data.tensors)} tensors, not two; pass the one "
                "with the labels, such as dataset.tensors[1]."
            )
        return _flat(data.tensors[1])
    if hasattr(data, "dataset") and (hasattr(data, "indices") or hasattr(data, "sampler")):
        own = np.asarray(labels_of(data.dataset, label))  # a torch Subset or DataLoader
        usual = getattr(data, "sampler", own)
        sampler = getattr(getattr(data, "batch_sampler", None), "sampler", usual)
        if hasattr(sampler, "__len__") and len(sampler) != len(own):
            raise DataError(
                f"The sampler of a {type(data).__name__} takes {len(sampler)} of {len(own)} "
                "samples; pass an array of their labels."
            )
        return own[data.indices] if hasattr(data, "indices") else own
    if hasattr(data, "__array__") or isinstance(data, Sequence):
        return data[:] if isinstance(data, Sequence) else data  # much faster for a Column
    samples = (data[index] for index in range(len(data))) if has_length else data
    return [own[label if isinstance(own, Mapping) else 1] for own in samples]


def _one_each(labels: NDArray[Any], data: Any) -> NDArray[Any]:
    """Return labels, after checking that there is one for each sample of a data set."""
    if hasattr(data, "__len__") and len(data) != len(labels):
        raise DataError(
            f"A {type(data).__name__} of {len(data)} samples has {len(labels)} labels; pass an "
            "array with the label of each sample."
        )
    return labels


def _flat(labels: Any) -> NDArray[Any]:
    """Return labels (M, 1) as (M,)."""
    own = np.asarray(labels)
    return own[:, 0] if own.ndim == 2 and own.shape[1] == 1 else own
