"""Read the label counts of a federation from the kinds of tables that people have.

A table is read exactly or refused. Nothing is guessed, because the verdict would be meaningless if
a column of client numbers were taken for a class. `grids` reads files as text, `wide_tables` and
`long_tables` take columns by their names, and `label_counts` checks the arithmetic.
"""

from typing import Any

import numpy as np

from dubhe_flwr import count_labels
from dubhe_flwr.errors import DataError, DubheError
from dubhe_lab.data.grids import read_grid
from dubhe_lab.data.label_counts import LabelCounts, check_counts
from dubhe_lab.data.long_tables import is_long, read_long
from dubhe_lab.data.wide_tables import read_wide

__all__ = ["LabelCounts", "load_label_counts"]


def load_label_counts(
    source: Any,
    *,
    label: str = "label",
    heading: bool = True,
    client_column: str | None = None,
    label_column: str | None = None,
    classes: str | None = None,
) -> LabelCounts:
    """Return the label counts of a federation, or refuse a table that could mean something else.

    Parameters
    ----------
    source : path-like, DataFrame, array_like of int of shape (N, C), partitioner or LabelCounts
        A ``.csv``, ``.tsv``, ``.parquet`` or ``.npy`` file with one row per client and one column
        per class; the same as a data frame of pandas, Polars or Arrow, or as an array, whose
        columns have numbers from 0 as headings; or a partitioner of Flower Datasets with its data
        set. `LabelCounts` are returned unchanged.
    label : str (default: "label")
        The column of the labels in the data set of a partitioner.
    heading : bool (default: True)
        Whether the first line of a CSV or TSV is one. If not, columns are numbered from 0, and
        ``classes`` has to say which are counts.
    client_column : str, optional (default: "client", or a data frame's index)
        The heading of the column that names the clients. All others are counts, unless ``classes``
        says which are. A data frame's index names the clients if it has a name or holds text. An
        array has only counts.
    label_column : str, optional
        The heading of the column of labels in a table with a row for each sample, or for each
        client and label with their number in a column ``count``. A table whose headings are
        ``client``, ``label`` and perhaps ``count`` is one.
    classes : str, optional
        ``"FIRST..LAST"``: these two columns and all between them are counts, whatever they look
        like; other columns are ignored.

    Raises
    ------
    DataError
        If the table cannot be read, could mean something else, or has no whole numbers of
        samples; the message says where and what to give.

    Examples
    --------
    >>> found = load_label_counts([[9, 1, 0], [0, 5, 5]])
    >>> found.counts.shape, found.classes
    ((2, 3), ('0', '1', '2'))
    >>> import pandas as pd
    >>> samples = pd.DataFrame({"client": [7, 7, 7, 8, 8], "label": list("aabbb")})
    >>> found = load_label_counts(samples)
    >>> found.counts.tolist(), found.classes, found.clients
    ([[2, 1], [0, 2]], ('a', 'b'), ('7', '8'))
    """
    if isinstance(source, LabelCounts):
        return source
    if hasattr(source, "load_partition"):
        return _of_partitions(source, label)
    grid = read_grid(source, heading=heading)
    if label_column is not None or (classes is None and is_long(grid)):
        if classes is not None:
            raise DataError(
                "label_column is for tables with a row for each sample; leave out label_column or "
                "classes."
            )
        return read_long(grid, client_column or "client", label_column or "label")
    if classes is None and not heading:
        raise DataError(
            "Without a heading, nothing says which columns are counts; pass them as numbers, such "
            "as --classes 0..9."
        )
    return read_wide(grid, client_column, classes)


def _of_partitions(partitioner: Any, label: str) -> LabelCounts:
    """Count the labels of all partitions; the largest label sets the number of classes."""
    try:
        partitions = map(partitioner.load_partition, range(partitioner.num_partitions))
        labels = [np.asarray(own.with_format(None)[label]) for own in partitions]
        num_classes = 1 + max(int(own.max()) for own in labels if own.size)
        counts = np.stack([count_labels(own, num_classes) for own in labels])
    except DubheError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The labels of the partitions cannot be counted ({error}); name their column if it is "
            f"not {label!r}."
        ) from None
    clients, classes = (tuple(map(str, range(length))) for length in counts.shape)
    check_counts(counts, "label_counts", [f"partition {name}" for name in clients], totals=())
    return LabelCounts(counts, classes, clients)
