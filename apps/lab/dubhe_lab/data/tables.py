"""Label counts of a federation, from a file."""

import csv
import re
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_flwr.labels import count_labels, labels_of

_OF_NAMES: Final = re.compile(
    "((.*[ _-])?(id|name)|unnamed.*|cid|clients?|code|device|hospital|node|partition|site|"
    "station|user|writer)?"
)
"""Headings of a column that names the clients, whatever stands in it."""
_FEW: Final = 3  # numbers that count up may well be samples
_TOTALS: Final = {"sum", "total", "totals"}
_OF_LISTS: Final = {"class", "count", "counts", "label", "labels", "samples"}  # one a line


def load_label_counts(source: Any, *, label: str = "label") -> NDArray[np.int64]:
    """Return the label counts of a federation: a row a client, a column a class.

    Parameters
    ----------
    source : path-like, array_like of int of shape (N, C), or a partitioner
        A file that ends in ``.csv``, ``.npy`` or ``.parquet``; the counts; or a partitioner of
        Flower Datasets with its data set. A CSV may have a first line of names, and a first
        column of names.
    label : str (default: "label")
        The column of the labels in the data set of a partitioner.

    Returns
    -------
    ndarray of int64, shape (N, C)

    Raises
    ------
    DataError
        If there is no such table, or a client has no samples; the message says where.

    Examples
    --------
    >>> load_label_counts([[9, 0], [2, 2]]).shape
    (2, 2)
    """
    if isinstance(source, str | PathLike):
        path = Path(source)
        table, name = _read(path), str(path)
    elif hasattr(source, "load_partition"):
        table, name = _of_partitions(source, label), "The partitioner"
    else:
        name = "label_counts"
        try:
            table = np.asarray(source)
        except ValueError:
            raise DataError(
                f"{name} has rows of several lengths; give a row for each client."
            ) from None
    if table.size == 0:
        raise DataError(
            f"{name} has no row of numbers; give one for each client, with a column for each "
            "class, below names of classes if there are any."
        )
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "iuf":
        raise DataError(
            f"{name} has shape {table.shape} of {table.dtype}; give numbers, a row for each "
            "client and a column for each of at least two classes."
        )
    # A NaN fails every comparison, so the check asks for what must hold.
    good = (table >= 0) & (table < 2**40) & (table == np.floor(table))
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise DataError(
            f"{name}: row {row + 1} has {table[row, column]} samples of class {column}; give whole "
            "numbers of samples, 0 or more. Rows are counted from 1, without names of classes."
        )
    totals = table.sum(axis=1)
    # In a few rows it may be so by chance.
    for what, lines in (("column", table.T), ("row", table)):
        if min(len(table), 2 * table.shape[1]) >= 5 and (2 * lines[-1] == lines.sum(axis=0)).all():
            raise DataError(
                f"{name}: the last {what} is the sum of all others; leave it out, or put it first "
                "if it is none."
            )
    if empty := np.flatnonzero(totals == 0).tolist():
        raise DataError(f"{name}: row {empty[0] + 1} has no samples; leave such clients out.")
    return table.astype(np.int64)


def _read(path: Path) -> NDArray[Any]:
    readers = {".csv": _read_csv, ".npy": _read_npy, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise DataError(
            f"{path} is of no known kind; give a file that ends in {', '.join(readers)}."
        )
    try:
        return readers[path.suffix.lower()](path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not in UTF-8"
        raise DataError(f"{path} cannot be read ({why}); give the path of a table.") from None


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError):
        raise DataError(f"{path} is no array of numbers; save one with numpy.save.") from None


def _read_csv(path: Path) -> NDArray[Any]:
    separator, rows = _cells_of(path)
    first = rows[0][1] if rows else []
    has_heading = bool(first) and _is_heading(first)
    is_numbered = has_heading and len(first) <= _FEW and all(map(_is_number, first))
    is_named = not has_heading and any(first[:1]) and _OF_NAMES.fullmatch(first[0].lower())
    if is_numbered or is_named:
        raise DataError(
            f"{path}: the first line, {separator.join(first)[:60]}, may name the classes or be a "
            "client; name the classes in words above it, or in its place."
        )
    headings = [cell.lower() for cell in rows.pop(0)[1]] if has_heading else []
    if _OF_LISTS.intersection(headings[1:]):
        raise DataError(
            f"{path} is a list ({', '.join(headings)}); give a line for each client, and in it a "
            "column for each class."
        )
    names = [cells[0] for _, cells in rows]
    if totals := _TOTALS.intersection([*headings, *map(str.lower, names)]):
        raise DataError(f"{path}: {min(totals)!r} is no class and no client; leave it out.")
    width = len(rows[0][1]) if rows else 0
    has_words = all(_is_name(name) or not name for name in names)
    if headings:
        is_crosstab = not _is_number(headings[0]) and _counts_up(headings[1:])
        has_names = len(headings) == width - 1 or is_crosstab
        has_names = has_names or bool(_OF_NAMES.fullmatch(headings[0]))
    else:
        has_names = _counts_up(names)
    skipped = int(has_words or has_names)
    for at, cells in rows:
        if len(cells) != width or not all(map(_is_number, cells[skipped:])):
            raise DataError(
                f"{path}, line {at}: {separator.join(cells)[:60]!r} is no row of "
                f"{width - skipped} numbers; give a line for each client, and in it the samples of "
                "each class, 0 for none, separated by commas."
            )
    if not (skipped or _counts_up(headings)) and _may_number_clients(names):
        raise DataError(
            f"{path}: the first column, {', '.join(names[:3])}, ..., may number the clients or be "
            "samples of a class; name it 'client' if it numbers them, else put a column of names "
            "before it."
        )
    if rows and headings and len(headings) not in {width, width - 1}:
        raise DataError(f"{path}: {len(headings)} names stand above {width} columns; name each.")
    return np.array([[float(cell) for cell in cells[skipped:]] for _, cells in rows])


def _cells_of(path: Path) -> tuple[str, list[tuple[int, list[str]]]]:
    """Return the separator, and the cells of each line that is not empty, with its number."""
    lines = [line.strip(" ") for line in path.read_text(encoding="utf-8-sig").splitlines()]
    used = {each: sum(line.count(each) for line in lines) for each in "\t;,"}
    separator = max(used, key=used.__getitem__) if any(used.values()) else " "
    looks: Any = {"delimiter": separator, "skipinitialspace": True, "strict": True}
    rows = []
    for at, line in enumerate(lines, 1):
        try:
            cells = [cell.strip() for cell in next(csv.reader([line], **looks), [])]
        except csv.Error:
            raise DataError(f"{path}, line {at}: {line[:60]!r} has an open quote.") from None
        if any(cells):
            rows.append((at, cells))
    return separator, rows


def _is_heading(cells: list[str]) -> bool:
    """Return whether a line names the classes; a client with 30 and 0 samples does not."""
    if _counts_up(cells):
        return True
    return not _is_number(cells[0]) and (all(map(_is_name, cells[1:])) or _counts_up(cells[1:]))


def _counts_up(cells: list[str]) -> bool:
    """Return whether these are numbers of classes or clients, from 0 or 1 on."""
    return cells in ([str(first + place) for place in range(len(cells))] for first in (0, 1))


def _may_number_clients(cells: list[str]) -> bool:
    """Return whether a column holds another whole number in each line."""
    return len(cells) > 1 and all(map(str.isdigit, cells)) and len({*cells}) == len(cells)


def _is_name(cell: str) -> bool:
    """Return whether it is a word; 1,200 is none, and no number either."""
    return not _is_number(cell) and any(map(str.isalpha, cell))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> NDArray[Any]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise DataError(
            f"{path} needs pyarrow; install it with `pip install pyarrow`, or save a CSV."
        ) from None
    try:
        table = parquet.read_table(path)
    except ValueError as error:  # pyarrow's own errors are such
        raise DataError(f"{path} is no Parquet file ({error}).") from None
    names = [name for name in table.column_names if not name.startswith("__index")]
    columns = [table[name].to_numpy() for name in names]
    kept = [column for column in columns if column.dtype.kind in "iuf"]
    return np.stack(kept, axis=1) if kept else np.empty((0, 0))


def _of_partitions(partitioner: Any, label: str) -> NDArray[np.int64]:
    """Count the labels of all partitions; there are as many classes as the largest one says."""
    partitions = map(partitioner.load_partition, range(partitioner.num_partitions))
    labels = [np.asarray(labels_of(own, label)) for own in partitions]
    num_classes = 1 + max(int(own.max()) for own in labels if own.size)
    return np.stack([count_labels(own, num_classes) for own in labels])
