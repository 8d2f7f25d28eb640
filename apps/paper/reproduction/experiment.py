"""An experiment of the reproduction: the cells it needs, and what it makes of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dubhe_flwr.report.section import Section
from reproduction.cell import Cell
from reproduction.options import Options

__all__ = ["SKEW", "Experiment", "Found", "finished", "spread"]

Found: TypeAlias = Mapping[str, Any]
"""Results by `Cell.key`; cells whose data set is missing are not in it."""

SKEW: Final[Mapping[str, Any]] = {"rho": 10.0, "emd": 1.5}
"""The federation of the paper's sections 6.3 and 6.4."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    cells : callable (Options) -> list of Cell
        What has to be measured.
    report : callable (Options, Found) -> Section
        What it makes of that.
    needs_all : bool (default: True)
        Whether nothing can be made of a part of the cells.
    """

    cells: Callable[[Options], list[Cell]]
    report: Callable[[Options, Found], Section]
    needs_all: bool = True


def finished(cells: Sequence[Cell], found: Found) -> Iterator[Any]:
    """Yield the results of those cells that there are.

    Examples
    --------
    >>> cell = Cell("study", "greedy", {})
    >>> list(finished([cell, Cell("study", "random", {"seed": 1})], {cell.key: 7}))
    [7]
    """
    return (found[cell.key] for cell in cells if cell.key in found)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return mean and, of more than one value, largest distance from it.

    Examples
    --------
    >>> spread([0.1, 0.3]), spread([0.2]), spread([])
    ('0.200 ± 0.100', '0.200', '')
    """
    if not values:
        return ""
    mean = sum(values) / len(values)
    text = f"{mean:.{digits}f}"
    if len(values) == 1:
        return text
    return f"{text} ± {max(abs(value - mean) for value in values):.{digits}f}"
