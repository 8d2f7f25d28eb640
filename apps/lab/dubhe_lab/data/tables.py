"""Read the label counts of a federation from the kinds of tables that people have.

A table is read exactly or refused; nothing is guessed, because a column of client numbers that is
taken for a class leads to a meaningless verdict. `grids` reads files as text, `wide_tables` and
`long_tables` decide what each column is, `headings` knows the words, and `label_counts` checks the
arithmetic.
"""

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr import count_labels
from dubhe_flwr.errors import DataError, DubheError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, read_table
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
    source : path-like, DataFrame, array_like of int of shape (N, C), or a partitioner
        A ``.csv``, ``.tsv``, ``.parquet`` or ``.npy`` file with one row per client and one column
        per class; the same as a pandas data frame or an array; or a partitioner of Flower Datasets
        with its data set.
    label : str (default: "label")
        The column of the labels in the data set of a partitioner.
    heading : bool (default: True)
        Whether the first line of a CSV or TSV is a heading. If not, columns are numbered from 0.
    client_column : str, optional
        The heading of the column that names the clients; all others are counts, unless ``classes``
        says which are.
    label_column : str, optional
        The heading of the column of labels in a long table, whose clients are in
        ``client_column`` (default: "client").
    classes : str, optional
        ``"FIRST..LAST"``: these two columns and all between them are counts; other columns are
        ignored.

    Raises
    ------
    DataError
        If the table cannot be read, could mean something else, or has no whole numbers of
        samples; the message says where and what to give.

    Notes
    -----
    Without ``client_column`` and ``classes`` these tables are read:

    - *Words*: the first column holds distinct words, and the headings of the others are words.
      Headings that are class numbers will do if they run from 0 or 1 on, there are at least three
      of them, and the first heading is empty or a word for clients such as ``hospital``.
    - *Crosstab*: what ``pandas.crosstab(client, label).to_csv()`` writes. The other headings are
      ascending class numbers, and the first column holds ascending whole numbers. Its heading is a
      word for clients such as ``client`` or ``school_id``; or the table has at least ten times as
      many rows as classes, and the numbers lie so close together that counts would have repeated
      some of them. Margins are left out.
    - *Long*: the headings are ``client`` and ``label``, with a row for each sample, or ``client``,
      ``label`` and ``count``.
    - A data frame whose index has a name or holds text: the index names the clients.
    - Arrays: rows are clients and columns are classes.

    In any other table whole numbers in the first column may number clients, label single samples,
    or be counts, so the table is refused. A table is also refused if

    - it may be transposed: the first heading is a word for classes, all others are words for
      clients, or the rows are fewer than the columns and nothing says that they are clients;
    - a column looks like no class: its heading is ``age``, ``..._id`` or the like, or its numbers
      ascend or never repeat as client numbers do;
    - a row or column that calls itself a total does not add up (one that does is left out), or
      the first or last one adds up without calling itself a total;
    - all rows add up to 100, as percentages do, or all numbers are 0 and 1.

    A column inside ``classes`` is taken as counts whatever its heading and numbers look like.

    Examples
    --------
    >>> load_label_counts([[9, 0], [2, 2]]).counts.shape
    (2, 2)
    >>> import pandas as pd
    >>> samples = pd.DataFrame({"client": [7, 7, 7, 8, 8], "label": list("aabbb")})
    >>> found = load_label_counts(samples)
    >>> found.counts.tolist(), found.classes, found.clients
    ([[2, 1], [0, 2]], ('a', 'b'), ('7', '8'))
    """
    named = {"client_column": client_column, "label_column": label_column, "classes": classes}
    given = [name for name, value in named.items() if value is not None]
    is_partitioner = hasattr(source, "load_partition")
    table = _of_partitions(source, label) if is_partitioner else read_table(source, heading=heading)
    if not isinstance(table, Grid):
        name = str(source) if isinstance(source, str | PathLike) else "label_counts"
        if given:
            raise DataError(f"{name} has no headings; leave {' and '.join(given)} out.")
        return _of_array(table, name, is_checked=is_partitioner)
    if label_column is not None or (classes is None and is_long(table)):
        if classes is not None:
            raise DataError("label_column is for a line a sample; leave it or classes out.")
        return read_long(table, client_column or "client", label_column or "label")
    return read_wide(table, client_column, classes)


def _of_array(table: NDArray[Any], name: str, *, is_checked: bool) -> LabelCounts:
    """Read an array of clients and classes; refuse one with a column that numbers the clients."""
    if table.ndim != 2 or min(table.shape) < 1 or table.dtype.kind not in "iuf":
        raise DataError(
            f"{name} has shape {table.shape} of {table.dtype}; give numbers, a row for each "
            "client and a column for each of at least two classes."
        )
    # A NaN fails every comparison, so check what must hold, not what must not.
    good = (table >= 0) & (table < 2**40) & (table == np.floor(table))
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise DataError(
            f"{name}: row {row + 1} has {table[row, column]} samples of class {column}; give whole "
            "numbers of samples, 0 or more."
        )
    counts = table.astype(np.int64)
    for which, at in (("first", 0), ("last", -1)):
        if not is_checked and words.numbers_rows(counts[:, at]):
            raise DataError(
                f"{name}: the {which} column seems to number the clients; leave it out, or write a "
                "CSV with headings and give --classes FIRST..LAST."
            )
    places = [f"row {row + 1}" for row in range(len(counts))]
    check_counts(counts, name, places, () if is_checked else ("row", "column"))
    clients, classes = (tuple(map(str, range(length))) for length in counts.shape)
    return LabelCounts(counts, classes, clients)


def _of_partitions(partitioner: Any, label: str) -> NDArray[np.int64]:
    """Count the labels of all partitions; the largest label sets the number of classes."""
    try:
        partitions = map(partitioner.load_partition, range(partitioner.num_partitions))
        labels = [np.asarray(own.with_format(None)[label]) for own in partitions]
        num_classes = 1 + max(int(own.max()) for own in labels if own.size)
        return np.stack([count_labels(own, num_classes) for own in labels])
    except DubheError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The labels of the partitions cannot be counted ({error}); name their column if it is "
            f"not {label!r}."
        ) from None
