"""A table of text, for a terminal, an HTML page and a Markdown page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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

    def for_html(self) -> str:
        """Return the table as HTML that scrolls on a narrow page."""
        head, *body = (
            "".join(f"<{tag}>{escape(cell)}</{tag[:2]}>" for cell in row)
            for tag, rows in (('th scope="col"', [self.columns]), ("td", self.rows))
            for row in rows
        )
        lines = "".join(f"<tr>{row}</tr>" for row in body)
        return (
            f'<div style="overflow-x: auto"><table><caption>{escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
        )
