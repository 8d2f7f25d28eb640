"""Read wide tables: a row for each client, a column for each class, and one for clients' names.

The caller says which columns are counts, or every column besides the names has to be one. Headings
and numbers only serve to refuse a table, never to find out what a column means.
"""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_lab.data.grids import Grid
from dubhe_lab.data.label_counts import LabelCounts, check_counts


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SUMMARIES: Final = _set(
    "all average avg dev deviation gesamt insgesamt max maximum mean median min minimum overall "
    "std subtotal sum summe total"
)
_NO_CLASSES: Final = _SUMMARIES | _set(
    "age bed client clinic code count date fold fraction hospital id idx index label n nr num "
    "number patient pct percent percentage proportion rate round row sample seed share site size "
    "split station time unnamed user weight year"
)


def read_wide(grid: Grid, client_column: str | None, classes: str | None) -> LabelCounts:
    """Return the label counts; raises `DataError` for a table that may mean something else."""
    headings = list(map(str, grid.cells.columns))
    if client_column is None and (classes is not None or grid.is_array):
        names = [each for each in headings if each.casefold() == grid.client.casefold()]
    else:
        names = [grid.column(grid.client if client_column is None else client_column)]
    if classes is None:
        columns = [heading for heading in headings if heading not in names]
    else:
        columns = _in_range(grid, headings, classes)
    if set(names) & set(columns):
        raise DataError(f"classes={classes!r} must not contain the column of the clients.")
    others = grid.cells[[heading for heading in headings if heading not in columns]]
    for place, row in zip(others.index, others.to_numpy(), strict=True):
        if summaries := [cell for cell in row if summarises(cell)]:
            raise DataError(
                f"{grid.name}, {place}: {summaries[0]!r} seems to summarise other rows; leave it "
                "out, or rename it."
            )
    counts = grid.counts(columns)
    if classes is None:
        _check_columns(grid.name, columns, counts)
    check_counts(counts, grid.name, list(grid.cells.index), totals=("row", "column"))
    return LabelCounts(counts, tuple(columns), _names(grid, names))


def summarises(name: str) -> bool:
    """Return whether a row or label calls itself a total or a statistic of others."""
    own = set(_words(name))
    return not own.isdisjoint({"total", "subtotal"}) or (bool(own) and own <= _SUMMARIES)


def _in_range(grid: Grid, headings: list[str], classes: str) -> list[str]:
    """Return the columns that the caller calls counts."""
    first, _, last = classes.partition("..")
    if not last:
        raise DataError(f"classes={classes!r} has to be FIRST..LAST, two headings of the table.")
    begin, end = (headings.index(grid.column(each.strip())) for each in (first, last))
    if begin >= end:
        raise DataError(f"classes={classes!r} has to name two columns from left to right.")
    return headings[begin : end + 1]


def _check_columns(name: str, columns: list[str], counts: NDArray[np.int64]) -> None:
    """Refuse columns that look like something other than classes."""
    for heading, column in zip(columns, counts.T, strict=True):
        is_constant = len(column) >= 10 and 0 < column.min() == column.max()
        if (
            not heading
            or not _NO_CLASSES.isdisjoint(_words(heading))
            or _number_rows(column)
            or (is_constant and (counts != counts[0]).any())
        ):
            raise DataError(
                f"{name}: the column {heading!r} may not count the samples of a class; leave it "
                "out, or say which columns do with --classes FIRST..LAST."
            )
    if len(counts) >= 2 and (abs(counts.sum(axis=1) - 100) <= 2).all():  # they may be rounded
        raise DataError(
            f"{name}: every row adds up to about 100, as percentages do; write counts, or pass "
            "--classes FIRST..LAST if they are counts."
        )


def _number_rows(column: NDArray[np.int64]) -> bool:
    """Return whether numbers may name clients: they ascend, or no two are equal.

    By chance, counts ascend in one of 5040 tables of seven rows. How likely counts in this range
    all differ is the birthday problem with a uniform distribution, where ties are least likely.
    """
    if len(np.unique(column)) < len(column):
        return False
    span = float(column.max()) - float(column.min()) + 1
    no_ties = np.exp(np.log1p(-np.arange(len(column)) / span).sum())
    ascends = len(column) >= 7 and (np.diff(column) > 0).all()
    return bool(ascends or no_ties < 1e-6)


def _names(grid: Grid, columns: list[str]) -> tuple[str, ...]:
    """Return the names of the clients, or numbers if no column has them."""
    if not columns:
        return tuple(map(str, range(len(grid.cells))))
    cells = grid.cells[columns[0]]
    if (wrong := cells.duplicated(keep=False) | (cells == "")).any():
        places = " and ".join(cells.index[wrong][:2])
        raise DataError(
            f"{grid.name}, {places}: a client has no name or a second row; name each client once, "
            "or pass --client-column and --label-column if each row is a sample."
        )
    return tuple(cells)


def _words(heading: str) -> list[str]:
    """Split `numSamples`, `hospital_nr` and `Client 3` into lower-case words without a final s."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", heading)
    return [word.rstrip("s") for word in re.split(r"[\W_0-9]+", spaced.casefold()) if word]
