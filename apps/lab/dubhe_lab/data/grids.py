"""Files and data frames as grids of text, before `tables` interprets the cells.

Reading converts nothing: `007`, `1,200` and an empty cell arrive in `tables` exactly as the file
has them, so a number is either read exactly or the table is refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

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

    Parameters
    ----------
    name : str
        Name of the table in error messages.
    headings : tuple of str, length W
        The columns' names, or their numbers from 0 if the file has no heading.
    cells : ndarray of str, shape (N, W)
    places : tuple of str, length N
        Position of each row in the source, such as "line 3".
    heading : {"named", "first line", "numbers"}
        Source of the headings: a data frame, the first line of a file (which might be a client's
        counts instead), or the columns' numbers.
    has_index : bool
        Whether the first column is the named index of a data frame.
    across : str (default: "")
        Name of the data frame's column axis.
    """

    name: str
    headings: tuple[str, ...]
    cells: NDArray[Any]
    places: tuple[str, ...]
    heading: Literal["named", "first line", "numbers"]
    has_index: bool = False
    across: str = ""

    def column(self, heading: str) -> int:
        """Return the column with this heading; case matters only if two headings differ by it."""
        at = [place for place, own in enumerate(self.headings) if own == heading]
        folded = [own.casefold() == heading.casefold() for own in self.headings]
        at = at or np.flatnonzero(folded).tolist()
        if len(at) != 1:
            raise DataError(
                f"{self.name} has no column {heading!r}; name one of {shown(self.headings)}."
            )
        return at[0]

    def counts(self, rows: Iterable[int], columns: Iterable[int]) -> NDArray[np.int64]:
        """Return these cells as counts.

        Raises
        ------
        DataError
            If a cell is not a whole number from 0 to 2**40; the message says which.
        """
        rows, columns = list(rows), list(columns)
        text = self.cells[np.ix_(rows, columns)]
        codes, kinds = pd.factorize(text.ravel())
        values = np.array([_count(str(kind)) for kind in kinds], dtype=np.int64)
        found = values[codes].reshape(text.shape)
        if (found < 0).any():
            row, column = np.argwhere(found < 0)[0]
            raise DataError(
                f"{self.name}, {self.places[rows[row]]}: {_why(text[row, column])} in the column "
                f"{self.headings[columns[column]]!r}; write whole numbers of samples without "
                "separators and 0 for none, or say which columns are counts with "
                "--classes FIRST..LAST."
            )
        return found


def shown(names: Iterable[str]) -> str:
    """Join names for a message or a summary, without the middle of a long list."""
    every = [name if len(name) <= 40 else f"{name[:37]}..." for name in names]
    return ", ".join(every if len(every) <= 12 else [*every[:8], "...", *every[-3:]])


def read_table(source: Any, *, heading: bool) -> Grid | NDArray[Any]:
    """Return a grid of text, or an array if the source cannot have headings.

    Parameters
    ----------
    source : path-like, DataFrame or array_like
    heading : bool
        Whether the first line of a CSV or TSV is a heading.

    Raises
    ------
    DataError
        If the file is not a readable table of the kind that its suffix says.
    """
    if isinstance(source, pd.DataFrame):
        return _of_frame(source, "The data frame")
    if not isinstance(source, str | PathLike):
        try:
            return np.asarray(source)
        except ValueError:
            raise DataError(
                "label_counts has rows of several lengths; give a row for each client."
            ) from None
    path = Path(source)
    try:
        return _read(path, path.suffix.lower(), heading=heading)
    except ImportError:
        why, remedy = "needs pyarrow", "install it with `pip install pyarrow`, or save a CSV"
    except UnicodeDecodeError:
        why, remedy = "is not in UTF-8", "save it as CSV in UTF-8"
    except (OSError, ValueError, EOFError) as error:  # pyarrow's errors are ValueErrors or OSErrors
        why = "is damaged or of another kind than it ends in"
        if isinstance(error, OSError) and error.strerror:
            why = f"cannot be read ({error.strerror})"
        remedy = "give the path of a table"
    raise DataError(f"{path} {why}; {remedy}.")


def _read(path: Path, kind: str, *, heading: bool) -> Grid | NDArray[Any]:
    if kind == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if kind == ".parquet":
        return _of_frame(pd.read_parquet(path), str(path))
    if kind in {".csv", ".tsv"}:
        return _of_text(path, path.read_text(encoding="utf-8-sig"), heading=heading)
    raise DataError(
        f"{path} has to end in .csv, .tsv, .parquet or .npy; save the table as one of them."
    )


def _of_text(path: Path, text: str, *, heading: bool) -> Grid:
    """Parse a CSV or TSV; all lines must have the same number of cells."""
    separator = "\t" if path.suffix.lower() == ".tsv" else _separator(path, text)
    body = text.lstrip("\n")
    try:
        frame = pd.read_csv(
            StringIO(body),
            sep=separator,
            header=None,
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            engine="python",  # distinguishes missing cells from empty ones
        )
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except pd.errors.ParserError as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{path}: {why}; give every line a cell for each heading, close every quote, and "
            "delete titles and comments."
        ) from None
    frame.index += 1 + len(text) - len(body)
    short = frame.isna().any(axis=1)
    cells = frame.fillna("").map(str.strip) if frame.size else frame
    kept = (cells != "").any(axis=1)  # drops lines that hold only separators
    if (short & kept).any():
        raise DataError(
            f"{path}, line {(short & kept).idxmax()}: there are fewer cells than in the first "
            f"line, which has {frame.shape[1]}; give every line a cell for each heading."
        )
    cells = cells[kept]
    cells = cells.loc[:, (cells != "").any(axis=0)]  # drops columns of trailing separators
    if len(cells) <= heading or cells.shape[1] < 2:
        raise DataError(
            f"{path} has no table of counts; write a line for each client and a column for each "
            "class, separated by commas, below a heading that names the classes."
        )
    comments = cells.iloc[:, 0].str.startswith("#")
    if comments.any():
        raise DataError(f"{path}, line {comments.idxmax()}: delete the comment, or its '#'.")
    lines = tuple(f"line {line}" for line in cells.index)
    grid = cells.to_numpy(dtype=object)
    if not heading:
        numbers = tuple(map(str, range(grid.shape[1])))
        return Grid(str(path), numbers, grid, lines, "numbers")
    return Grid(str(path), _distinct(path, grid[0]), grid[1:], lines[1:], "first line")


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


def _of_frame(frame: pd.DataFrame, name: str) -> Grid:
    """Read a data frame; its index becomes a column if it has a name or holds text."""
    if max(frame.index.nlevels, frame.columns.nlevels) > 1:
        raise DataError(f"{name} has an index of several levels; give it one, as crosstab does.")
    across, index = str(frame.columns.name or ""), frame.index
    has_index = index.name is not None or pd.api.types.is_string_dtype(index.dtype)
    columns = [index.to_series(), *(frame.iloc[:, at] for at in range(frame.shape[1]))]
    columns = columns[0 if has_index else 1 :]
    if frame.size == 0 or len(columns) < 2:
        raise DataError(f"{name} has no table of counts; give a row a client, a column a class.")
    cells = [
        ["" if gap else str(cell).strip() for cell, gap in zip(own, own.isna(), strict=True)]
        for own in columns
    ]
    own = [str(each).strip() for each in frame.columns]
    if has_index:
        own.insert(0, "" if index.name is None else str(index.name).strip())
    return Grid(
        name,
        _distinct(name, own),
        np.array(cells, dtype=object).T,
        tuple(f"row {row + 1}" for row in range(len(frame))),
        heading="named",
        has_index=has_index,
        across=across,
    )


def _distinct(name: Path | str, headings: Iterable[str]) -> tuple[str, ...]:
    found = tuple(" ".join(each.split()) for each in headings)
    repeated = pd.Series(found).str.casefold().duplicated().to_numpy()
    if repeated.any():
        raise DataError(
            f"{name} has two columns {found[repeated.argmax()]!r}; give every column a heading "
            "of its own, in one line, or --no-heading if the first line is a client."
        )
    return found


def _count(cell: str) -> int:
    """Return the cell's count, or -1 if it holds none."""
    if not _COUNT.fullmatch(cell):
        return -1
    value = float(cell.replace(",", "."))
    return int(value) if value.is_integer() and value < _LIMIT else -1


def _why(cell: str) -> str:
    if not cell:
        return "a count is missing"
    kind = "a share" if "%" in cell else "not a whole number of samples"
    return f"{cell[:40]!r} is {kind}"
