"""Read long tables: one row per sample, or one per client and label with a count."""

import pandas as pd

from dubhe_flwr.errors import DataError
from dubhe_lab.data import headings as words
from dubhe_lab.data.grids import Grid, counts_of, shown
from dubhe_lab.data.label_counts import LabelCounts, check_counts


def is_long(grid: Grid) -> bool:
    """Return whether the headings are `client` and `label`, with or without `count`."""
    own = {each.casefold() for each in grid.headings if not words.is_unnamed(each)}
    return own in ({"client", "label"}, {"client", "label", "count"})


def read_long(grid: Grid, client_column: str, label_column: str) -> LabelCounts:
    """Return the label counts; raises `DataError` for a third column without counts."""
    client, label = grid.column(client_column), grid.column(label_column)
    rest = [own for own in grid.headings if own not in {client, label}]
    rest = [own for own in rest if not _numbers_rows(own, grid.cells[own])]
    if client == label or len(rest) > 1 or not all(map(words.is_total, rest)):
        raise DataError(
            f"{grid.name} has the columns {shown(grid.headings)}; keep one for the client, one for "
            "the label, and a third called 'count' if rows have one."
        )
    long = pd.DataFrame(
        {
            "client": _names(grid.name, grid.cells[client]),
            "label": _names(grid.name, grid.cells[label]),
            "count": counts_of(grid.name, grid.cells[rest])[:, 0] if rest else 1,
        }
    )
    names = {*long["client"].unique(), *long["label"].unique()} if rest else set()
    if totals := sorted(filter(words.is_total_row, map(str, names))):
        raise DataError(
            f"{grid.name}: {totals[0]!r} calls itself a total; leave out its rows, or rename it if "
            "it is not a total."
        )
    again = long[long.duplicated(["client", "label"])]
    if rest and len(again):
        raise DataError(
            f"{grid.name}, {again.index[0]}: client {str(again['client'].iloc[0])!r} has a second "
            f"count of {str(again['label'].iloc[0])!r}; add them."
        )
    if not rest and long["label"].is_unique:
        raise DataError(f"{grid.name}: no label in {label!r} occurs twice; name another column.")
    wide = long.pivot_table("count", "client", "label", aggfunc="sum", fill_value=0)
    counts, clients = wide.to_numpy(dtype="int64"), tuple(map(str, wide.index))
    check_counts(counts, grid.name, [f"client {name!r}" for name in clients], totals=())
    return LabelCounts(counts, tuple(map(str, wide.columns)), clients)


def _numbers_rows(heading: str, cells: "pd.Series[str]") -> bool:
    return words.is_unnamed(heading) and words.count_up(cells.tolist())


def _names(name: str, cells: "pd.Series[str]") -> "pd.Series":
    """Return the names in a column, as numbers if all of them are numbers."""
    is_number = cells.map(words.is_number)
    is_measured = cells.str.fullmatch(r"[0-9]*\.[0-9]*") & ~is_number
    wrong = cells.map(words.is_missing) | is_measured
    if wrong.any():
        raise DataError(
            f"{name}, {wrong.idxmax()}: {cells[wrong].iloc[0]!r} in {cells.name!r} is not a name; "
            "name a client and a label in every row, and put numbers that are measured into bins."
        )
    spelt = cells.str.removesuffix(".0") if is_number.all() else cells
    merged = spelt.map(int) if is_number.all() else spelt.str.casefold()
    if merged.nunique() < spelt.nunique():
        raise DataError(
            f"{name}: some names in {cells.name!r} differ in capitals or leading zeros only; write "
            "each in one way."
        )
    return merged if is_number.all() else cells
