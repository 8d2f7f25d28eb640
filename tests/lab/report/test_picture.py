"""A picture stacks its panels over one legend."""

from collections.abc import Sequence
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.legend import Legend

from dubhe_lab.report.picture import Picture


def test_panels_are_stacked() -> None:
    """Each panel gets its own axes, and the legend has room below."""
    places = []

    def draw(axes: Axes) -> None:
        box = axes.get_subplotspec()
        assert box is not None
        places.append((box.rowspan.start, box.colspan.start))

    pixels = imread(BytesIO(Picture("two", "", [draw, draw], 4, 1.2).png))
    assert places == [(0, 0), (1, 0)]
    assert pixels.shape[:2] == (480, 640)
    assert np.ptp(pixels) > 0


def legend_of(width: float, *panels: Sequence[str]) -> tuple[Legend, Figure]:
    """Return the legend of a picture whose panels have these labels."""
    figures = []

    def draw(names: Sequence[str], axes: Axes) -> None:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        figures.append(figure)
        for name in names:
            axes.plot([0, 1], label=name)

    assert Picture("lines", "", [partial(draw, names) for names in panels], width).png
    (legend,) = figures[0].legends
    return legend, figures[0]


def test_the_legend_names_each_label_once() -> None:
    """The legend names each label once, however many panels show it."""
    legend, _ = legend_of(4, ["left", "both"], ["right", "both"])
    assert [text.get_text() for text in legend.get_texts()] == ["left", "both", "right"]


@pytest.mark.parametrize("width", [4, 7, 14])
def test_the_legend_fits_the_picture(width: float) -> None:
    """A legend row holds the names that fit the picture's width."""
    names = ["random", "Dubhe", "Dubhe (paper), H=10", "greedy (oracle)", "all clients", "uniform"]
    legend, figure = legend_of(width, names)
    extent = legend.get_window_extent()
    assert 0 <= extent.x0 < extent.x1 <= width * figure.dpi
