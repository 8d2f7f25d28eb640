"""Read wide tables, with one row per client and one column per class.

First each column gets a role: one may name the clients, the rest are counts. The caller may say
which; otherwise the first column has to name the clients beyond doubt. Then named totals are
checked and left out, and columns that do not look like classes are refused.
"""

from collections import Counter
from collections.abc import Sequence
from shlex import quote
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts

_MANY = 10
"""At this many rows per column, rows are clients: classes never outnumber clients tenfold."""


def read_wide(grid: Grid, client_column: str | None, classes: str | None) -> LabelCounts:
    """Read a table with one row per client and one column per class.

    Raises
    ------
    DataError
        If a column could mean something else, or a cell holds no count.
    """
    client, columns = _roles(grid, client_column, classes)
    others = [at for at in range(len(grid.headings)) if at not in columns]
    rows, total_rows = _clients_and_totals(grid, others)
    called = _totals(grid, rows, columns, is_told=classes is not None)
    kept = [at for at in columns if at not in called]
    counts = grid.counts(rows, kept)
    if classes is None:
        _check_columns(grid, rows, kept, counts)
    for row in total_rows:
        if (grid.counts([row], kept)[0] != counts.sum(axis=0)).any():
            raise DataError(
                f"{grid.name}, {grid.places[row]}: the row calls itself a total and is not the sum "
                "of the others; correct it or leave it out."
            )
    places = [grid.places[row] for row in rows]
    check_counts(counts, grid.name, places, ("row",) if classes else ("row", "column"))
    left = [f"column {grid.headings[at]!r}" for at in (*others, *called) if at != client]
    left += [f"row {' '.join(grid.cells[row, others])!r}" for row in total_rows]
    names = [str(at) for at in range(len(rows))]
    if client is not None:
        names = _client_names(grid, rows, client)
    return LabelCounts(counts, tuple(grid.headings[at] for at in kept), tuple(names), tuple(left))


def _roles(
    grid: Grid, client_column: str | None, classes: str | None
) -> tuple[int | None, list[int]]:
    """Return the column that names the clients, if any, and the columns of counts or totals."""
    client = None if client_column is None else grid.column(client_column)
    if classes is None:
        if client is None:
            client = _find_clients(grid)
        return client, [at for at in range(len(grid.headings)) if at != client]
    first, dots, last = classes.partition("..")
    if not dots:
        raise DataError(f"classes={classes!r} has to be FIRST..LAST, two headings of the table.")
    columns = list(range(grid.column(first.strip()), grid.column(last.strip()) + 1))
    if len(columns) < 2 or client in columns:
        raise DataError(
            f"classes={classes!r} has to name two columns from left to right, and none between "
            "them may name the clients."
        )
    own = [grid.headings[at] for at in columns]
    if grid.heading == "first line" and any(map(words.is_number, own)):
        numbers = [name for name in own if words.is_number(name)]
        if not words.are_ascending(numbers):
            raise DataError(
                f"{grid.name}: the first line, {shown(grid.headings)}, may be a client; give "
                "--no-heading, or name the classes in words."
            )
    return client, columns


def _find_clients(grid: Grid) -> int:
    """Return the first column if it names the clients beyond doubt."""
    rows, _ = _clients_and_totals(grid, [0])
    cells = [str(cell) for cell in grid.cells[rows, 0]]
    first, *others = grid.headings
    others = [each for each in others if not words.is_total(each)]
    are_words, are_numbers = all(map(words.is_word, cells)), all(map(words.is_number, cells))
    if not cells or words.is_total(first):
        _refuse(grid)
    if words.names_classes(first) and (are_words or are_numbers):
        raise DataError(
            f"{grid.name}: the column {first!r} may hold classes or labels; transpose the table if "
            "each row is a class, or give --client-column and --label-column if each is a sample."
        )
    if grid.has_index or are_words:
        _check_heading(grid, first, others)
        _check_direction(grid, first, len(cells), len(others))
    elif not _is_crosstab(first, others, cells):
        _refuse(grid)
    return 0


def _is_crosstab(first: str, others: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the first column numbers clients and the other headings number classes."""
    if len(others) < 2 or not (words.are_ascending(cells) and words.are_ascending(others)):
        return False
    if words.names_clients(first):
        return True
    no_ties = words.chance_of_no_ties(np.array([float(cell) for cell in cells]))
    is_heading = words.is_word(first) or words.is_unnamed(first)
    return is_heading and len(cells) >= _MANY * len(others) and no_ties < 1e-3


def _check_heading(grid: Grid, first: str, others: Sequence[str]) -> None:
    """Refuse a first line that may be a client with a word as its name."""
    may_name = words.names_clients(first) or words.is_unnamed(first)
    are_numbered = may_name and len(others) >= 3 and words.count_up(others)
    is_named = are_numbered or all(map(words.is_word, others))
    if grid.heading == "first line" and not is_named:
        raise DataError(
            f"{grid.name}: the first line, {shown(grid.headings)}, may name the classes or be a "
            f"client; give --client-column {quote(first)}, or --no-heading."
        )


def _check_direction(grid: Grid, first: str, num_rows: int, num_columns: int) -> None:
    """Refuse rows that may be samples or classes."""
    if words.names_samples(first):
        raise DataError(
            f"{grid.name}: each row may be one sample ({first!r}); give --client-column and "
            "--label-column, or sum up the samples of each client."
        )
    if num_rows < num_columns and not words.names_clients(first):
        raise DataError(
            f"{grid.name}: the {num_rows} rows may be clients or classes; give --client-column "
            f"{quote(first)} if they are clients, or transpose the table."
        )


def _refuse(grid: Grid) -> NoReturn:
    """Raise an error that says what the first column may be, with a remedy for each case."""
    first, *others = grid.headings
    if grid.heading == "first line" and all(map(words.is_number, grid.headings)):
        raise DataError(
            f"{grid.name}: the first line, {shown(grid.headings)}, may be a client or number the "
            f"classes; give --no-heading with --client-column 0 or --classes 0..{len(others)} if "
            f"it is a client, or --classes {first}..{others[-1]} if it numbers the classes."
        )
    example = quote(f"{others[0] if words.is_unnamed(first) else first}..{others[-1]}")
    raise DataError(
        f"{grid.name}: the first column, {first!r}, may name the clients or be a class; give "
        f"--client-column {quote(first)} if it names them, --classes FIRST..LAST for the columns "
        f"that are counts (such as {example}), or --client-column and --label-column if each row "
        "is a sample."
    )


def _clients_and_totals(grid: Grid, others: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the rows of clients and the rows called a total."""
    totals = [
        row
        for row, cells in enumerate(grid.cells[:, others])
        if any(map(words.is_total_row, map(str, cells)))
    ]
    return [row for row in range(len(grid.cells)) if row not in totals], totals


def _totals(grid: Grid, rows: Sequence[int], columns: Sequence[int], *, is_told: bool) -> list[int]:
    """Return the columns that are called a total and are one."""
    called = [at for at in columns if words.is_total(grid.headings[at])]
    kept = [at for at in columns if at not in called]
    if not called or not rows:
        return []
    name = grid.headings[called[0]]
    sums = grid.counts(rows, kept).sum(axis=1, keepdims=True)
    adds_up = len(kept) >= 2 and bool((grid.counts(rows, called) == sums).all())
    if is_told and adds_up:
        raise DataError(f"{grid.name}: {name!r} is the sum of the classes; leave it out of them.")
    if not is_told and not adds_up:
        raise DataError(
            f"{grid.name}: the column {name!r} is not the sum of the classes; leave it out, or "
            f"give --classes FIRST..LAST if it is one of them."
        )
    return called if adds_up else []


def _check_columns(
    grid: Grid, rows: Sequence[int], columns: Sequence[int], counts: NDArray[np.int64]
) -> None:
    """Refuse unconfirmed columns that look like something other than classes."""
    own = [grid.headings[at] for at in columns]
    if all(map(words.names_clients, own)) or words.names_clients(grid.across):
        raise DataError(
            f"{grid.name}: the columns {shown(own)} may be clients; transpose the table, or give "
            "--classes FIRST..LAST if they are classes."
        )
    for at, name, column in zip(columns, own, counts.T, strict=True):
        # Without a heading, nothing shows that the first column after the names holds counts.
        is_bare = grid.heading == "numbers" and at == columns[0]
        if words.is_unnamed(name):
            what = "has no name; name it"
        elif words.is_no_class(name):
            what = "seems to describe clients or samples; leave it out"
        elif words.numbers_rows(column) or (is_bare and len(np.unique(column)) == len(column)):
            what = "ascends or never repeats a number, as numbers of clients do; leave it out"
        else:
            continue
        raise DataError(
            f"{grid.name}: the column {name!r} {what}, or give --classes FIRST..LAST for those "
            "that are counts."
        )
    if len(counts) >= 2 and (counts.sum(axis=1) == 100).all():
        raise DataError(
            f"{grid.name}: every row adds up to 100, as percentages do; give numbers of samples, "
            "or --classes FIRST..LAST if each client has 100."
        )
    begins = [str(number) for number in counts[:1].ravel()]
    if len(own) >= 4 and words.count_up(begins):
        raise DataError(
            f"{grid.name}, {grid.places[rows[0]]}: {shown(begins)} may be a second heading; leave "
            "it out, or give --classes FIRST..LAST if it is a client."
        )


def _client_names(grid: Grid, rows: Sequence[int], client: int) -> list[str]:
    names = [str(name) for name in grid.cells[rows, client]]
    (name, times), *_ = Counter(names).most_common(1)
    again = [grid.places[row] for row, own in zip(rows, names, strict=True) if own == name]
    if times > 1:
        raise DataError(
            f"{grid.name}: the client {name!r} is in {' and '.join(again[:2])}; give each one row, "
            "or --client-column and --label-column if each row is a sample."
        )
    if "" in names:
        at = grid.places[rows[names.index("")]]
        raise DataError(f"{grid.name}, {at}: the client has no name; give it one.")
    return names
