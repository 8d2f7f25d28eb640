"""What a benchmark found: figures with what is wanted of them, and tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dubhe_flwr.report.section import Table

__all__ = ["BenchResults", "Figure"]


@dataclass(frozen=True)
class Figure:
    """One number, and a bound that it should keep.

    Parameters
    ----------
    value : float
        As measured.
    at_least, at_most : float, optional
        The bound; without one there is nothing to keep.

    Examples
    --------
    >>> Figure(180.0, at_least=150).is_kept, Figure(1.2, at_most=1.1).is_kept, Figure(3.0).is_kept
    (True, False, None)
    """

    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def wanted(self) -> str:
        """The bound in words; empty without one."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"


@dataclass(frozen=True)
class BenchResults:
    """All that a benchmark found.

    Parameters
    ----------
    name : str
        Name of the benchmark.
    config : mapping
        Settings, versions, command line, machine and date.
    figures : mapping of str to Figure
        The numbers that count.
    measured : mapping
        What they were computed from.
    tables : sequence of Table
        The same for people.
    """

    name: str
    config: Mapping[str, Any]
    figures: Mapping[str, Figure]
    measured: Mapping[str, Any]
    tables: Sequence[Table]

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes: each figure under its own name."""
        return {
            **{name: figure.value for name, figure in self.figures.items()},
            "wanted": {
                name: {"bound": figure.wanted, "kept": figure.is_kept}
                for name, figure in self.figures.items()
                if figure.wanted
            },
            "measured": dict(self.measured),
            "config": dict(self.config),
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON, into a folder that is made if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    def figure_table(self) -> Table:
        """Return the figures beside what is wanted of them."""
        rows = [
            (
                name,
                f"{figure.value:.4g}",
                figure.wanted,
                {None: "", True: "yes", False: "no"}[figure.is_kept],
            )
            for name, figure in self.figures.items()
        ]
        return Table("Figures", ("figure", "measured", "wanted", "kept"), rows)

    def markdown(self) -> str:
        """Return command and tables as Markdown."""
        tables = "\n\n".join(table.for_markdown() for table in (*self.tables, self.figure_table()))
        return f"```bash\n{self.config['command']}\n```\n\n{tables}\n"
