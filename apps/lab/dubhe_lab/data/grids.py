"""Files, data frames and arrays as grids of text, before any cell is interpreted.

Reading converts nothing: `007`, `1,200` and an empty cell arrive as the file has them, so a number
is either read exactly or the table is refused. Data frames and arrays are written as CSV first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dubhe_flwr.errors import DataError

_COUNT: Final = re.compile(r"(0|[1-9][0-9]*)([.,]0{1,2})?|[0-9]\.[0-9]+e[+-][0-9]{2}")
"""A count as people write it: 12, 12.0 (pandas, if a cell is missing), 12,0 and 1.2e+01 (NumPy).

1.200 and 1,200 do not match: they mean 1200 in one country and 1.2 in another.
"""
_LIMIT: Final = 2**40


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a table as text.

    The columns of `cells` are the headings, or numbers from 0 for a table without headings; its
    index holds the rows' places in the source, such as "line 3". `client` is the heading of the
    clients' names if the caller names none: a data frame's index, otherwise "client". An array has
    counts only.
    """

    name: str
    cells: pd.DataFrame
    client: str = "client"
    is_array: bool = False

    def column(self, heading: str) -> str:
        """Return the column's name as the table writes it."""
        for own in self.cells.columns:
            if own.casefold() == heading.casefold():
                return str(own)
        raise DataError(
            f"{self.name} has no column {heading!r}, but {shown(self.cells.columns)}; name the "
            "clients' column with --client-column, and the columns of counts with --classes "
            "FIRST..LAST, or the column of labels with --label-column."
        )

    def counts(self, columns: list[str]) -> NDArray[np.int64]:
        """Return cells as counts.

        Raises `DataError` for a cell that is not a whole number below 2**40.
        """
        text = self.cells[columns].to_numpy(dtype=object)
        codes, kinds = pd.factorize(text.ravel())
        values = np.array([_count(kind) for kind in kinds], dtype=np.int64)
        found = values[codes].reshape(text.shape)
        if (found < 0).any():
            row, column = np.argwhere(found < 0)[0]
            cell = text[row, column]
            why = (
                f"{cell[:40]!r} is not a whole number of samples" if cell else "a count is missing"
            )
            raise DataError(
                f"{self.name}, {self.cells.index[row]}: {why} in the column {columns[column]!r}; "
                "write whole numbers of samples without separators and 0 for none, or say which "
                "columns are counts with --classes FIRST..LAST."
            )
        return found


def shown(names: Iterable[str]) -> str:
    """Join names for a message or a summary, without the middle of a long list."""
    every = [name if len(name) <= 40 else f"{name[:37]}..." for name in names]
    return ", ".join(every if len(every) <= 12 else [*every[:8], "...", *every[-3:]])


def read_grid(source: Any, *, heading: bool) -> Grid:
    """Return the grid of a path, a data frame or an array.

    `heading` says whether the first line of a CSV or TSV is one. Raises `DataError` for a source
    that is not a table of the kind that its suffix says.
    """
    if not isinstance(source, str | PathLike):
        return _of_values(source, "label_counts")
    path = Path(source)
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            return _of_values(np.load(path, allow_pickle=False), str(path))
        if suffix == ".parquet":
            return _of_values(pd.read_parquet(path), str(path))
        if suffix in {".csv", ".tsv"}:
            text = path.read_text(encoding="utf-8-sig")
            separator = "\t" if suffix == ".tsv" else _separator(path, text)
            return Grid(str(path), _cells(str(path), text, separator, heading=heading))
        why = "its name has to end in .csv, .tsv, .parquet or .npy"
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; pass the path of a table.") from None
    except ImportError:
        raise DataError(
            f"{path} cannot be read without pyarrow; run `pip install './apps/lab[parquet]'` in a "
            "clone, or `uv run --no-dev --package dubhe-lab --extra parquet dubhe study ...`."
        ) from None
    except (OSError, ValueError, EOFError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
    raise DataError(f"{path} cannot be read: {why}; pass the path of a table, as CSV in UTF-8.")


def _of_values(values: Any, name: str) -> Grid:
    """Read a data frame, whose index names the clients if it has a name or holds text; or an array.

    Raises `DataError` if an axis of the frame says that rows are classes.
    """
    values = values.to_pandas() if hasattr(values, "to_pandas") else values  # Polars, Arrow
    is_frame = isinstance(values, pd.DataFrame)
    try:
        frame = values if is_frame else pd.DataFrame(np.asarray(values))
    except ValueError as error:
        raise DataError(f"{name} is not a table ({error}); pass a row for each client.") from None
    index, columns = frame.index, frame.columns
    if max(index.nlevels, columns.nlevels) > 1:
        raise DataError(f"{name} has an index of several levels; use one, as crosstab does.")
    if index.name in {"label", "class"} or columns.name == "client":
        raise DataError(f"{name} has a row for each class; transpose it.")
    has_names = index.name is not None or pd.api.types.is_string_dtype(index.dtype)
    cells = _cells(name, frame.to_csv(index=has_names), ",", first=("row", 0))
    return Grid(name, cells, cells.columns[0] if has_names else "client", is_array=not is_frame)


def _cells(
    name: str,
    text: str,
    separator: str,
    *,
    heading: bool = True,
    first: tuple[str, int] = ("line", 1),
) -> pd.DataFrame:
    """Parse a CSV or TSV; `first` is the place of its first line."""
    body = text.lstrip("\n")
    try:
        cells = pd.read_csv(
            StringIO(body),
            sep=separator,
            header=None,
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            engine="python",  # refuses a line with more cells than the first
        )
    except pd.errors.EmptyDataError:
        cells = pd.DataFrame({0: [""]})
    except pd.errors.ParserError as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{name}: {why}; write a cell for each heading in every line, close every quote, and "
            "delete titles and comments."
        ) from None
    place, number = first[0], first[1] + len(text) - len(body)
    cells.index = pd.Index([f"{place} {at + number}" for at in cells.index])
    cells = cells.fillna("").map(lambda cell: " ".join(cell.split()))
    is_full = cells != ""  # drops lines that hold only separators, and columns of trailing ones
    cells = cells.loc[is_full.any(axis=1), is_full.any(axis=0)]
    headings = [str(at) for at in range(cells.shape[1])]
    if heading:
        headings = cells[:1].to_numpy().ravel().tolist()
        cells = cells[1:]
    if not len(cells) or len(headings) < 2:
        raise DataError(
            f"{name} has no table of counts; write a line for each client and a column for each "
            "of at least two classes, separated by commas, below a heading that names the classes."
        )
    repeated = pd.Series(headings).str.casefold().duplicated().to_numpy()
    if repeated.any():
        raise DataError(
            f"{name} has two columns {headings[repeated.argmax()]!r}; name every column "
            "differently, in one line, or pass --no-heading if the first line is a client."
        )
    return cells.set_axis(headings, axis=1)


def _separator(path: Path, text: str) -> str:
    """Return the separator in the first line; refuse the table if there are two candidates."""
    first = next((line for line in text.splitlines() if line.strip(" ,;\t")), "")
    found = [each for each in ",;\t" if each in re.sub('"[^"]*"', "", first)]
    if "\0" in text or len(found) > 1:
        raise DataError(
            f"{path}: the first line, {first[:60]!r}, does not show what separates its cells; "
            "save the table as CSV in UTF-8, separated by commas."
        )
    return found[0] if found else ","


def _count(cell: str) -> int:
    """Return the cell's count, or -1 if it holds none."""
    value = float(cell.replace(",", ".")) if _COUNT.fullmatch(cell) else -1.0
    return int(value) if value.is_integer() and value < _LIMIT else -1
