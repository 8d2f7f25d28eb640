"""Long tables: a row for each sample, or for each client and label with their count."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts


def is_long(grid: Grid) -> bool:
    """Return whether the headings are `client` and `label`, with or without `count`."""
    own = {each.casefold() for each in grid.headings if not words.is_unnamed(each)}
    return own in ({"client", "label"}, {"client", "label", "count"})


def read_long(grid: Grid, client_column: str, label_column: str) -> LabelCounts:
    """Read a row a sample, or a row for each client and label with their count.

    Raises
    ------
    DataError
        If there is no such column or any other, a cell is empty, or a pair is counted twice.
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
    clients, people = _coded(grid, client)
    classes, labels = _coded(grid, label)
    numbers = grid.counts(rows, rest)[:, 0] if rest else np.ones(len(rows), dtype=np.int64)
    pairs = list(zip(people.tolist(), labels.tolist(), strict=True))
    if rest and len(set(pairs)) < len(pairs):
        (person, own), _ = Counter(pairs).most_common(1)[0]
        raise DataError(
            f"{grid.name}: client {clients[person]!r} has two counts of {classes[own]!r}; add them."
        )
    if not rest and len(classes) == len(pairs):
        raise DataError(
            f"{grid.name}: no label in {label_column!r} is there twice; name another column."
        )
    counts = np.zeros((len(clients), len(classes)), dtype=np.int64)
    np.add.at(counts, (people, labels), numbers)
    check_counts(counts, grid.name, [f"client {name!r}" for name in clients], totals=())
    return LabelCounts(counts, tuple(classes), tuple(clients))


def _numbers_rows(grid: Grid, column: int) -> bool:
    cells = list(map(str, grid.cells[:, column]))
    return words.is_unnamed(grid.headings[column]) and words.count_up(cells)


def _coded(grid: Grid, column: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names in a column, sorted as numbers if all are, and which each row has."""
    cells = [str(cell) for cell in grid.cells[:, column]]
    for place, cell in zip(grid.places, cells, strict=True):
        is_fraction = cell.replace(".", "", 1).isdecimal() and not words.is_number(cell)
        if words.is_missing(cell) or is_fraction:
            raise DataError(
                f"{grid.name}, {place}: {cell!r} in {grid.headings[column]!r} is no name; give "
                "every row a client and a label, and put numbers that are measured into bins."
            )
    if all(map(words.is_number, cells)):
        cells = [str(int(cell.partition(".")[0])) for cell in cells]
        names = sorted(set(cells), key=int)
    else:
        names = sorted(set(cells))
    if len({name.casefold() for name in names}) < len(names):
        raise DataError(
            f"{grid.name}: some names in {grid.headings[column]!r} differ in capitals only; write "
            "each in one way."
        )
    code = {name: at for at, name in enumerate(names)}
    return names, np.array([code[cell] for cell in cells], dtype=np.int64)
