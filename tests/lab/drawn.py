"""What matplotlib has drawn, as numbers."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D


def bars(axes: Axes) -> list[BarContainer]:
    """Return the groups of bars."""
    return [drawn for drawn in axes.containers if isinstance(drawn, BarContainer)]


def heights(axes: Axes) -> list[list[float]]:
    """Return the heights of the bars, group by group."""
    return [[bar.get_height() for bar in group] for group in bars(axes)]


def xs(line: Line2D) -> Any:
    """Return where the points of a line are, to the right."""
    return np.asarray(line.get_xdata(), dtype=float).tolist()


def ys(line: Line2D) -> Any:
    """Return where the points of a line are, upwards."""
    return np.asarray(line.get_ydata(), dtype=float).tolist()
