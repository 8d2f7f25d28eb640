"""Reads numbers back from what matplotlib has drawn."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D


def bars(axes: Axes) -> list[BarContainer]:
    """Return the groups of bars."""
    return [drawn for drawn in axes.containers if isinstance(drawn, BarContainer)]


def heights(axes: Axes) -> list[list[float]]:
    """Return the heights of the bars of each group."""
    return [[bar.get_height() for bar in group] for group in bars(axes)]


def xs(line: Line2D) -> Any:
    """Return the x coordinates of a line's points."""
    return np.asarray(line.get_xdata(), dtype=float).tolist()


def ys(line: Line2D) -> Any:
    """Return the y coordinates of a line's points."""
    return np.asarray(line.get_ydata(), dtype=float).tolist()
