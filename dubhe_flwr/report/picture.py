"""A picture: panels in rows with one legend below them, as the bytes of a PNG."""

from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import chain
from typing import Any, TypeAlias

from dubhe_flwr.report.style import STYLE, require_matplotlib

__all__ = ["Panel", "picture"]

Panel: TypeAlias = Callable[[Any], None]
"""Draws one finding into the axes it is given."""


def picture(rows: Sequence[Sequence[Panel]], size: tuple[float, float]) -> bytes:
    """Draw panels and return them as PNG.

    Parameters
    ----------
    rows : sequence of sequence of Panel
        All rows have the same length.
    size : tuple of float
        Width and height in inches.

    Returns
    -------
    bytes

    Raises
    ------
    DubheError
        If matplotlib is not installed.

    Examples
    --------
    >>> picture([[lambda axes: axes.plot([0, 1])]], (3, 2))[1:4]
    b'PNG'
    """
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    with matplotlib.rc_context(STYLE):
        # A Figure of its own draws with Agg and leaves the user's backend alone.
        figure = Figure(figsize=size)
        axes = figure.subplots(len(rows), len(rows[0]), squeeze=False)
        for drawn, draw in zip(axes.flat, chain.from_iterable(rows), strict=True):
            draw(drawn)
        entries: dict[str, Any] = {}
        for drawn in axes.flat:
            handles, labels = drawn.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        if entries:
            figure.legend(
                entries.values(),
                entries.keys(),
                loc="outside lower center",
                # Six names fit in a row of 10 inches, three in one of 5.
                ncols=min(len(entries), max(1, int(0.6 * size[0]))),
            )
        written = BytesIO()
        figure.savefig(written, format="png")
    return written.getvalue()
