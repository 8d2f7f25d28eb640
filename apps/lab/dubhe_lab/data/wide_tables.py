"""Read wide tables, with one row per client and one column per class.

First each column gets a role: one may name the clients, the rest are counts. The caller may say
which; otherwise the first column has to name the clients beyond doubt. Then named totals are
checked and left out, and columns that do not look like classes are refused.
"""

from collections.abc import Sequence
from shlex import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, are_counts, counts_of, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts

_MANY = 10
"""At this many rows per column, rows are clients: classes never outnumber clients tenfold."""


def read_wide(grid: Grid, client_column: str | None, classes: str | None) -> LabelCounts:
    """Return the label counts; raises `DataError` if a column could mean something else."""
    client = None if client_column is None else grid.column(client_column)
    if classes is None:
        if client is None and grid.kind != "array":
            client = _find_clients(grid)
        columns = [heading for heading in grid.headings if heading != client]
    else:
        columns = _in_range(grid, client, classes)
    others = [heading for heading in grid.headings if heading not in columns]
    is_total = _are_totals(grid.cells[others])
    rows, total_rows = grid.cells[~is_total], grid.cells[is_total]
    totals = _totals(grid.name, rows[columns], is_told=classes is not None)
    kept = [heading for heading in columns if heading not in totals]
    counts = counts_of(grid.name, rows[kept])
    _check_rows(grid.name, rows[others], counts)
    if classes is None:
        _check_columns(grid, client, rows, kept, counts)
    for place, row in zip(total_rows.index, counts_of(grid.name, total_rows[kept]), strict=True):
        if (row != counts.sum(axis=0)).any():
            raise DataError(
                f"{grid.name}, {place}: the row calls itself a total and is not the sum of the "
                "others; correct it or leave it out."
            )
    check_counts(counts, grid.name, list(rows.index), ("row",) if classes else ("row", "column"))
    names = list(map(str, range(len(rows)))) if client is None else _names(grid.name, rows[client])
    left = [f"column {heading!r}" for heading in (*others, *totals) if heading != client]
    left += [f"row {' '.join(row)!r}" for row in total_rows[others].to_numpy()]
    note = f"Left out: {shown(left)}. " if left else ""
    if classes is None and client is not None:
        note += (
            f"{client!r} names the clients, and every other column is a class; if one is not, pass "
            "--classes FIRST..LAST."
        )
    return LabelCounts(counts, tuple(kept), tuple(names), note.strip())


def _in_range(grid: Grid, client: str | None, classes: str) -> list[str]:
    """Return the columns that the caller calls counts."""
    first, _, last = classes.partition("..")
    if not last:
        raise DataError(f"classes={classes!r} has to be FIRST..LAST, two headings of the table.")
    begin, end = (grid.headings.index(grid.column(each.strip())) for each in (first, last))
    columns = grid.headings[begin : end + 1]
    if len(columns) < 2 or client in columns:
        raise DataError(
            f"classes={classes!r} has to name two columns from left to right, and none between "
            "them may name the clients."
        )
    if grid.kind == "file" and not words.are_ascending(list(filter(_may_be_count, columns))):
        raise DataError(
            f"{grid.name}: the first line, {shown(grid.headings)}, may be a client; pass "
            "--no-heading, or name the classes in words."
        )
    return columns


def _find_clients(grid: Grid) -> str:
    """Return the first column if it names the clients beyond doubt."""
    first, *others = grid.headings
    if len(others) < 2:
        names = grid.cells[first]
        are_clients = names.is_unique and (
            names.map(words.is_word).all() or words.names_clients(first)
        )
        is_label = words.names_rows(first) or words.names_rows(others[0])
        if are_clients and not is_label and are_counts(grid.cells[others[0]]):
            raise DataError(
                f"{grid.name} has one column of counts, {others[0]!r}; add a column for each of "
                "at least two classes."
            )
        client, label = (*others, first) if words.names_rows(first) else (first, *others)
        raise DataError(
            f"{grid.name} has two columns; pass --client-column {quote(client)} --label-column "
            f"{quote(label)} if each row is a sample, or --classes {_range(grid.headings)} if both "
            "count a class."
        )
    rows = grid.cells[~_are_totals(grid.cells[[first]])]
    others = [heading for heading in others if not words.is_total(heading)]
    cells = rows[first].tolist()
    are_names = grid.has_index or all(map(words.is_word, cells))
    is_numbered = len(others) >= 3 and words.count_up(others)
    is_numbered &= words.names_clients(first) or words.is_unnamed(first)
    is_heading = words.is_noun_of_clients(first) and not any(map(words.is_noun_of_clients, cells))
    is_numbered |= is_heading and words.are_ascending(others)
    are_classes = is_numbered or all(map(words.is_word, others))
    all_numbers = all(map(_may_be_count, grid.headings))
    if grid.kind == "file" and (all_numbers or (are_names and not are_classes)):
        raise _refused(
            grid,
            rows,
            f"the first line, {shown(grid.headings)}, may be a client; if so, pass "
            f"--no-heading with --client-column 0 or --classes 0..{len(grid.headings) - 1}, or",
        )
    is_short = are_names and len(rows) < len(others) and not words.names_clients(first)
    if words.names_rows(first) or is_short:
        raise _refused(grid, rows, "each row may be a class; if so, transpose the table, or")
    if not cells or words.is_total(first) or not (are_names or _is_crosstab(first, others, cells)):
        what = f"the first column, {first!r}, may name the clients or be a class;"
        raise _refused(grid, rows, what)
    return first


def _may_be_count(heading: str) -> bool:
    """Return whether a heading is a number, so that the first line may be a client."""
    return words.is_number(heading) or are_counts([heading])


def _is_crosstab(first: str, others: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the first column numbers clients and the other headings number classes."""
    if len(others) < 2 or not (words.are_ascending(cells) and words.are_ascending(others)):
        return False
    if words.names_clients(first):
        return True
    no_ties = words.chance_of_no_ties(np.array(cells, dtype=float).astype(np.int64))
    is_heading = words.is_word(first) or words.is_unnamed(first)
    return is_heading and len(cells) >= _MANY * len(others) and no_ties < 1e-3


def _refused(
    grid: Grid, rows: pd.DataFrame, why: str, known_client: str | None = None
) -> DataError:
    """Return an error that says how to name the columns, in the words of this table.

    If the column of clients is known, naming it again would not help, so the classes are named too.
    """
    first, *others = grid.headings
    are_names = (
        own for own in grid.headings if rows[own].map(words.is_word).all() and rows[own].is_unique
    )
    client = known_client
    if client is None:
        client = next((own for own in are_names if not words.names_rows(own)), first)
    label = next((own for own in others if words.names_rows(own)), None)
    counts: list[str] = []  # the last columns that stand together, hold counts and look like it
    for heading in reversed(grid.headings):
        is_class = not (words.is_no_class(heading) or words.is_total(heading))
        if is_class and not words.is_unnamed(heading) and are_counts(rows[heading]):
            counts.insert(0, heading)
        elif len(counts) >= 2:
            break
    told, classes = f"--client-column {quote(client)}", f"--classes {_range(counts)}"
    has_more = len(counts) >= 2 and {*grid.headings} - {client, *counts}
    if has_more or known_client is not None:
        told += f" {classes}"
    long = "--client-column and --label-column"
    if label is not None:
        long = f"--client-column {quote(first)} --label-column {quote(label)}"
    return DataError(
        f"{grid.name}: {why} pass {told} if {client!r} names the clients, {classes} if only these "
        f"columns are counts, or {long} if each row is a sample."
    )


def _range(columns: Sequence[str]) -> str:
    return quote(f"{columns[0]}..{columns[-1]}") if len(columns) >= 2 else "FIRST..LAST"


def _are_totals(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows call themselves a total."""
    return np.array([any(map(words.is_total_row, row)) for row in cells.to_numpy()], dtype=bool)


def _totals(name: str, cells: pd.DataFrame, *, is_told: bool) -> list[str]:
    """Return the columns that are called a total and are one."""
    called = [heading for heading in map(str, cells) if words.is_total(heading)]
    kept = [heading for heading in map(str, cells) if heading not in called]
    if not called or not len(cells):
        return []
    sums = counts_of(name, cells[kept]).sum(axis=1, keepdims=True)
    adds_up = len(kept) >= 2 and bool((counts_of(name, cells[called]) == sums).all())
    if is_told != adds_up:
        return called if adds_up else []
    what, how = ("", "without it") if adds_up else ("not ", "if it is a class")
    raise DataError(
        f"{name}: the column {called[0]!r} is {what}the sum of the classes; leave it out, or pass "
        f"--classes FIRST..LAST {how}."
    )


def _check_rows(name: str, cells: pd.DataFrame, counts: NDArray[np.int64]) -> None:
    """Refuse rows that call themselves a statistic, or a total of the rows above them."""
    for at, row in enumerate(cells.to_numpy()):
        why = ""
        if any(map(words.is_statistic_row, row)):
            why = "seems to be a statistic of the others; leave it out, or rename it"
        elif any(map(words.has_total, row)):
            above = np.cumsum(counts[:at][::-1], axis=0)[1:]
            why = "is the sum of rows above it; leave it out" if _holds(above, counts[at]) else ""
        if why:
            raise DataError(f"{name}, {cells.index[at]}: the row {' '.join(row)!r} {why}.")


def _holds(rows: NDArray[np.int64], row: NDArray[np.int64]) -> bool:
    return bool((rows == row).all(axis=1).any())


def _check_columns(
    grid: Grid,
    client: str | None,
    rows: pd.DataFrame,
    columns: Sequence[str],
    counts: NDArray[np.int64],
) -> None:
    """Refuse unconfirmed columns that look like something other than classes."""
    if all(map(words.names_clients, columns)):
        raise _refused(
            grid, rows, f"{shown(columns)} may be clients; if so, transpose the table, or", client
        )
    for at, (name, column) in enumerate(zip(columns, counts.T, strict=True)):
        # Without a heading, nothing shows that the first column after the names holds counts.
        is_bare = grid.kind == "file without heading" and at == 0 and client is not None
        is_distinct = is_bare and len(np.unique(column)) == len(column)
        is_inner = grid.kind == "array" and 0 < at < len(columns) - 1
        is_constant = len(column) >= 10 and 0 < column.min() == column.max()
        if words.is_unnamed(name):
            what = "has no name; name it, or"
        elif words.is_no_class(name):
            what = "seems to describe clients or samples; leave it out, or"
        elif is_distinct or (words.number_rows(column) and not is_inner):
            what = "ascends or never repeats a number, as numbers of clients do; leave it out, or"
        elif is_constant and (counts != counts[0]).any():
            what = "has the same number in every row; leave it out if it is a setting, or"
        else:
            continue
        raise _refused(grid, rows, f"the column {name!r} {what}", client)
    if len(counts) >= 2 and (abs(counts.sum(axis=1) - 100) <= 2).all():  # they may be rounded
        why = "every row adds up to about 100, as percentages do; write counts, or"
        raise _refused(grid, rows, why, client)
    begins = [str(number) for number in counts[:1].ravel()]
    if grid.kind == "file" and len(columns) >= 4 and words.count_up(begins):
        raise _refused(
            grid, rows, f"{rows.index[0]} may be a second heading; leave it out, or", client
        )


def _names(name: str, cells: "pd.Series[str]") -> list[str]:
    """Return the names of the clients."""
    if (wrong := cells.duplicated(keep=False) | (cells == "")).any():
        places = " and ".join(cells.index[wrong][:2])
        raise DataError(
            f"{name}, {places}: a client has no name or a second row; name each client once, or "
            "pass --client-column and --label-column if each row is a sample."
        )
    return cells.tolist()
