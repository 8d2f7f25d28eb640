"""A section of a report: what was found about one question, in words, tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

__all__ = ["Picture", "Section", "Table"]


@dataclass(frozen=True)
class Table:
    """A table of text.

    Parameters
    ----------
    caption : str
        What it shows, in a sentence.
    columns : sequence of str
        Headings; the first column names what a row is about.
    rows : sequence of sequence of str
        As long as `columns` each.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def for_terminal(self) -> Grid:
        """Return the table as `rich` prints it.

        Examples
        --------
        >>> Table("Sizes", ("item", "bytes"), [("registry", "512")]).for_terminal().row_count
        1
        """
        grid = Grid(
            title=self.caption,
            box=SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
            title_justify="left",
        )
        for position, heading in enumerate(self.columns):
            if position == 0:
                grid.add_column(heading, no_wrap=True)
            else:
                grid.add_column(heading, justify="right", overflow="fold")
        for row in self.rows:
            grid.add_row(*row)
        return grid

    def for_markdown(self) -> str:
        """Return the table as Markdown has it, headed by its caption.

        Examples
        --------
        >>> print(Table("Sizes", ("item", "bytes"), [("registry", "512")]).for_markdown())
        Sizes
        <BLANKLINE>
        | item | bytes |
        |---|---|
        | registry | 512 |
        """
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, *self.rows)]
        lines.insert(1, "|---" * len(self.columns) + "|")
        return "\n".join([self.caption, "", *lines])


@dataclass(frozen=True)
class Picture:
    """A figure with its caption.

    Parameters
    ----------
    name : str
        Name of a file, without its ending.
    caption : str
        What it shows, in sentences.
    png : bytes
        The picture.
    """

    name: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Section:
    """What was found about one question.

    Parameters
    ----------
    name : str
        Short name, unique in a report.
    title : str
        Heading.
    paragraphs : sequence of str
        Sentences that come first.
    tables : sequence of Table
        What was measured.
    pictures : sequence of Picture
        The same as figures.
    """

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
