"""Read long tables: one row per sample, or one per client and label with a count."""

import pandas as pd

from dubhe_flwr.errors import DataError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts


def is_long(grid: Grid) -> bool:
    """Return whether the headings are `client` and `label`, with or without `count`."""
    own = {each.casefold() for each in grid.headings if not words.is_unnamed(each)}
    return own in ({"client", "label"}, {"client", "label", "count"})


def read_long(grid: Grid, client_column: str, label_column: str) -> LabelCounts:
    """Read a table with one row per sample, or one per client and label with a count.

    Raises
    ------
    DataError
        If a column is missing or unexpected, a cell is empty, or a pair has two rows.
    """
    client, label = grid.column(client_column), grid.column(label_column)
    rest = [at for at in range(len(grid.headings)) if at not in {client, label}]
    rest = [at for at in rest if not _numbers_rows(grid, at)]
    rows = range(len(grid.cells))
    if client == label or [grid.headings[at].casefold() for at in rest] not in ([], ["count"]):
        raise DataError(
            f"{grid.name} has the columns {shown(grid.headings)}; for a row a sample keep two, "
            f"{client_column!r} and another for the label, and a third called 'count' if rows have "
            "one."
        )
    numbers = grid.counts(rows, rest)[:, 0] if rest else 1
    people, labels = _names(grid, client), _names(grid, label)
    long = pd.DataFrame({"client": people, "label": labels, "count": numbers})
    again = long[long.duplicated(["client", "label"])]
    if rest and len(again):
        raise DataError(
            f"{grid.name}: client {str(again['client'].iloc[0])!r} has two counts of "
            f"{str(again['label'].iloc[0])!r}; add them."
        )
    if not rest and labels.is_unique:
        raise DataError(
            f"{grid.name}: no label in {label_column!r} is there twice; name another column."
        )
    wide = long.pivot_table("count", "client", "label", aggfunc="sum", fill_value=0)
    counts, clients = wide.to_numpy(dtype="int64"), tuple(map(str, wide.index))
    check_counts(counts, grid.name, [f"client {name!r}" for name in clients], totals=())
    return LabelCounts(counts, tuple(map(str, wide.columns)), clients)


def _numbers_rows(grid: Grid, column: int) -> bool:
    cells = list(map(str, grid.cells[:, column]))
    return words.is_unnamed(grid.headings[column]) and words.count_up(cells)


def _names(grid: Grid, column: int) -> "pd.Series[str]":
    """Return the names in a column, as numbers if all of them are numbers."""
    cells = pd.Series([str(cell) for cell in grid.cells[:, column]])
    for place, cell in zip(grid.places, cells, strict=True):
        is_fraction = cell.replace(".", "", 1).isdecimal() and not words.is_number(cell)
        if words.is_missing(cell) or is_fraction:
            raise DataError(
                f"{grid.name}, {place}: {cell!r} in {grid.headings[column]!r} is no name; give "
                "every row a client and a label, and put numbers that are measured into bins."
            )
    if cells.map(words.is_number).all():
        return cells.map(lambda cell: int(cell.partition(".")[0]))
    if cells.str.casefold().nunique() < cells.nunique():
        raise DataError(
            f"{grid.name}: some names in {grid.headings[column]!r} differ in capitals only; write "
            "each in one way."
        )
    return cells
