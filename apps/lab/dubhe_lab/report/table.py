"""A table of text, for a terminal and a Markdown page."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid


@dataclass(frozen=True)
class Table:
    """A table of text: a caption, column headings, and rows that begin with their own heading."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def for_terminal(self) -> Grid:
        """Return the table for `rich` to print."""
        grid = Grid(
            title=self.caption,
            box=SIMPLE_HEAD,
            padding=(0, 0),
            pad_edge=False,
            title_justify="left",
        )
        first, *others = self.columns
        grid.add_column(first, no_wrap=True, style="bold")
        for heading in others:
            grid.add_column(heading, justify="right", overflow="fold")
        for row in self.rows:
            grid.add_row(*row)
        return grid

    def for_markdown(self) -> str:
        """Return the table as Markdown, without its caption."""
        headings = [heading.replace("\n", " ") for heading in self.columns]
        lines = [f"| {' | '.join(row)} |" for row in (headings, *self.rows)]
        return "\n".join([lines[0], "|---" * len(headings) + "|", *lines[1:]])
