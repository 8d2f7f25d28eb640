"""Read long tables: one row per sample, or one per client and label with a count."""

from typing import Final

import pandas as pd

from dubhe_flwr.errors import DataError
from dubhe_lab.data.grids import Grid, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts
from dubhe_lab.data.wide_tables import summarises

_MISSING: Final = ("", "na", "nan", "nat", "n/a", "n.a.", "null", "inf", "infinity", "missing")


def is_long(grid: Grid) -> bool:
    """Return whether the headings are `client` and `label`, with or without `count`."""
    own = {each.casefold() for each in grid.cells.columns}
    return own in ({"client", "label"}, {"client", "label", "count"})


def read_long(grid: Grid, client_column: str, label_column: str) -> LabelCounts:
    """Return the label counts; raises `DataError` for a third column without counts."""
    client, label = grid.column(client_column), grid.column(label_column)
    rest = [own for own in grid.cells.columns if own not in {client, label}]
    if client == label or [own.casefold() for own in rest] not in ([], ["count"]):
        raise DataError(
            f"{grid.name} has the columns {shown(grid.cells.columns)}; keep one for the client, "
            "one for the label, and a third called 'count' if rows have one."
        )
    clients, labels = _names(grid, client), _names(grid, label)
    count = grid.counts(rest)[:, 0] if rest else 1
    long = pd.DataFrame({"client": clients, "label": labels, "count": count})
    if not rest and labels.is_unique:
        raise DataError(f"{grid.name}: no label in {label!r} occurs twice; name another column.")
    names = {*clients.unique(), *labels.unique()} if rest else set()
    if summaries := sorted(filter(summarises, map(str, names))):
        raise DataError(
            f"{grid.name}: {summaries[0]!r} seems to summarise other rows; leave it out, or rename "
            "it."
        )
    again = long[long.duplicated(["client", "label"])]
    if rest and len(again):
        client, label = again.iloc[0][["client", "label"]]
        raise DataError(
            f"{grid.name}, {again.index[0]}: client {str(client)!r} has a second count of "
            f"{str(label)!r}; add them."
        )
    wide = long.pivot_table("count", "client", "label", aggfunc="sum", fill_value=0)
    counts, own = wide.to_numpy(dtype="int64"), tuple(map(str, wide.index))
    check_counts(counts, grid.name, [f"client {name!r}" for name in own], totals=())
    return LabelCounts(counts, tuple(map(str, wide.columns)), own)


def _names(grid: Grid, column: str) -> "pd.Series":
    """Return the names in a column, as numbers if all of them are numbers."""
    cells = grid.cells[column]
    if (wrong := cells.str.casefold().str.strip("-+<>?").isin(_MISSING)).any():
        raise DataError(
            f"{grid.name}, {wrong.idxmax()}: {cells[wrong].iloc[0]!r} in {column!r} is not a name; "
            "name a client and a label in every row."
        )
    numbers = pd.to_numeric(cells, errors="coerce")
    is_number = numbers.notna().all()
    if (numbers if is_number else cells.str.casefold()).nunique() < cells.nunique():
        raise DataError(
            f"{grid.name}: some names in {column!r} differ only in capitals or in how a number is "
            "written; write each in one way."
        )
    return numbers if is_number else cells
