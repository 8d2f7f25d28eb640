"""Panels for the figures of `dubhe paper`, drawn from plain numbers."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dubhe_lab.report.methods import Looks, method_label, method_looks
from dubhe_lab.report.panels import label_percents
from dubhe_lab.report.picture import UNIFORM_COLOUR

Points: TypeAlias = Mapping[str, tuple[float, float]]
"""A point of a picture for each method."""

_BLOCK_COLOUR = (0.0, 0.447, 0.698)


def draw_unbiasedness(
    axes: Axes,
    *,
    participants: Sequence[int],
    means: Mapping[str, Sequence[float]],
    deviations: Mapping[str, Sequence[float]],
    global_distance: float,
    title: str,
) -> None:
    """Draw bars of the mean and lines of the standard deviation of ``||p_o - p_u||_1`` over K."""
    looks = method_looks(means)
    bar = 0.84 / len(means)
    places = np.arange(len(participants))
    for position, (name, values) in enumerate(means.items()):
        left = places - 0.42 + bar * (position + 0.5)
        colour = looks[name]["color"]
        axes.bar(left, values, bar, color=colour, label=method_label(name))
        axes.plot(left, deviations[name], "o-", color=colour, mec="white", ms=5, lw=1.2, alpha=0.9)
    axes.axhline(
        global_distance,
        color=UNIFORM_COLOUR,
        linestyle="--",
        linewidth=1.2,
        label=r"all clients: $\|p_g - p_u\|_1$",
    )
    axes.set_xticks(places, [str(number) for number in participants])
    axes.set_xlabel("Clients that train in a round, K (dots: standard deviation over rounds)")
    axes.set_ylabel(r"$\|p_o - p_u\|_1$  (0 is uniform)")
    axes.set_title(title)


def draw_registry(axes: Axes, counts: Mapping[tuple[int, ...], int], num_classes: int) -> None:
    """Draw each category's count as a block: single classes in a row below a triangle of pairs.

    Categories of more than two classes are to the side.
    """
    highest = max(counts.values())
    blocks: dict[tuple[float, float], tuple[int, ...]] = {
        (c, -1.4): (c,) for c in range(num_classes) if (c,) in counts
    }
    for low, high in combinations(range(num_classes), 2):
        if (low, high) in counts:
            blocks[high, low] = (low, high)
    larger = [category for category in counts if len(category) > 2]
    for position, category in enumerate(larger):
        blocks[0, num_classes - 2 - position] = category
    for (x, y), category in blocks.items():
        count = counts[category]
        share = count / highest
        axes.add_patch(
            Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fc=(*_BLOCK_COLOUR, share), ec="#9CA3AF")
        )
        name = "all" if category in larger else ",".join(map(str, category))
        colour = "white" if share > 0.5 else UNIFORM_COLOUR
        axes.text(x, y + 0.17, f"({name})", ha="center", va="center", fontsize=7.5, color=colour)
        axes.text(x, y - 0.17, str(count), ha="center", va="center", fontsize=10, color=colour)
    axes.set_xlim(-0.7, num_classes - 0.3)
    axes.set_ylim(-2.1, num_classes - 1.2)
    axes.set_xticks(range(num_classes))
    axes.set_yticks([-1.4, *range(num_classes - 1)], ["one", *map(str, range(num_classes - 1))])
    axes.grid(visible=False)
    axes.set_xlabel("Higher dominating class")
    axes.set_ylabel("Lower dominating class")
    axes.set_title("Clients of each category")


def draw_reach(axes: Axes, *, points: Points, looks: Looks, title: str) -> None:
    """Draw a point for each method: its accuracy by the share of clients that trained."""
    for name, point in points.items():
        look = {**looks[name], "linestyle": "none"}
        axes.plot(*point, **look, ms=9, label=method_label(name))
    axes.set_xlim(0, 1.02)
    label_percents(axes.xaxis)
    label_percents(axes.yaxis)
    axes.margins(y=0.15)
    axes.set_xlabel("Clients that trained at least once")
    axes.set_ylabel("Accuracy, last rounds")
    axes.set_title(title)
