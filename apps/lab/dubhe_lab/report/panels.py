"""The figures of a comparison, drawn from its results, and the panels they consist of.

`save_figures` writes the files. The ``draw_...`` functions each draw one panel into given axes, and
are shared with the figures of `dubhe_lab.paper`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd

from dubhe_lab.report.methods import Looks, method_label, method_looks
from dubhe_lab.report.picture import GLOBAL_COLOUR, UNIFORM_COLOUR, Panel, Picture
from dubhe_lab.report.results import (
    ClassProportions,
    ComparisonResults,
    MethodResult,
    Selected,
)

if TYPE_CHECKING:  # imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_SMOOTHED_FROM: Final = 31
_MOST_BARS: Final = 20

LabelTerm = Literal["emd", "local_emd"]
_LABEL_TERMS: Final[Mapping[LabelTerm, tuple[str, str]]] = {
    "emd": ("Distance of the selected data from uniform", "Distance from uniform"),
    "local_emd": ("Distance of each client from the selected data", "Mean distance"),
}
"""Title and y label of the two label terms in the paper's bound."""


def save_figures(results: ComparisonResults, folder: Path) -> None:
    """Write the figures of a comparison as PNG files, and make the folder if needed.

    ``comparison.png`` shows accuracy and class proportions, and ``emd.png`` the two label terms of
    the paper's bound (eq. 3).
    """
    Picture("comparison", "", accuracy_and_shares(results)).save(folder)
    Picture("emd", "", label_terms(results)).save(folder)


def accuracy_and_shares(results: ComparisonResults, **how: Any) -> list[Panel]:
    """Return the panels of a comparison; keywords are arguments of `draw_accuracy`."""
    proportions = {name: method.class_proportions for name, method in results.methods.items()}
    everybody = results.federation.class_proportions
    return [
        partial(draw_accuracy, methods=results.methods, **how),
        partial(draw_shares, proportions=proportions, all_clients=everybody),
    ]


def label_terms(results: ComparisonResults) -> list[Panel]:
    """Return a panel for each of the two label terms."""
    return [partial(draw_emd, methods=results.methods, of=term) for term in _LABEL_TERMS]


def draw_accuracy(
    axes: "Axes",
    methods: Mapping[str, MethodResult],
    title: str = "Accuracy over rounds",
    looks: Looks | None = None,
) -> None:
    """Draw the test accuracy over the rounds, smoothed if there are many."""
    _draw_by_round(axes, {name: of.accuracy for name, of in methods.items()}, 0, looks)
    label_percents(axes.yaxis)
    axes.set_ylabel("Test accuracy")
    axes.set_title(title)


def draw_emd(axes: "Axes", methods: Mapping[str, Selected], of: LabelTerm = "emd") -> None:
    """Draw the distance of the selected data from uniform, or of clients from the selected data."""
    _draw_by_round(axes, {name: getattr(each, of) for name, each in methods.items()}, 1)
    axes.update_datalim([(1, 0)])  # so that the margin above the lines is a share of the height
    axes.set_ylim(bottom=0)
    title, distance = _LABEL_TERMS[of]
    axes.set_ylabel(distance)
    axes.set_title(title)


def draw_shares(
    axes: "Axes", proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
) -> None:
    """Draw the class proportions of the selected data and of all clients' data.

    Few classes get bars; many classes get lines.
    """
    num_classes = len(all_clients)
    if num_classes <= _MOST_BARS:
        _draw_bars(axes, proportions, all_clients)
        axes.set_xticks(range(num_classes))
        axes.set_xlabel("Class (bars in the order of the legend; lines: standard deviation)")
    else:
        _draw_lines(axes, proportions, all_clients)
        _step_evenly(axes.xaxis, integer=True)
        axes.set_xlabel("Class (bands: standard deviation over rounds)")
    label_percents(axes.yaxis)
    axes.axhline(
        1 / num_classes, color=UNIFORM_COLOUR, linestyle="--", linewidth=1.2, label="uniform"
    )
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, num_classes - 0.4)
    axes.set_ylabel("Share of the selected data")
    axes.set_title("Class proportions of the selected data")


def _draw_by_round(
    axes: "Axes",
    series: Mapping[str, Sequence[float | None]],
    first_round: int,
    looks: Looks | None = None,
) -> None:
    """Draw a line over the rounds for each name, smoothed if there are many rounds.

    The line bridges rounds without a value (None); markers are only on rounds with one.
    """
    looks = looks or method_looks(series)
    window = 1
    for name, measured in series.items():
        rounds = np.arange(first_round, first_round + len(measured))
        pairs = [pair for pair in zip(rounds, measured, strict=True) if pair[1] is not None]
        known, reached = np.array(pairs, dtype=np.float64).T
        values = np.interp(rounds, known, reached)
        if len(values) - 1 + first_round >= _SMOOTHED_FROM:
            window = max(2, len(values) // 12)
            axes.plot(rounds, values, color=looks[name]["color"], alpha=0.28, linewidth=1)
        # The first value is kept and left out of later means, so that curves begin together.
        means = pd.Series(values[1:]).rolling(window, min_periods=1).mean()
        axes.plot(
            rounds,
            [*values[:1], *means],
            **looks[name],
            markevery=(known[:: max(1, len(known) // 8)] - first_round).astype(int).tolist(),
            label=method_label(name),
        )
    axes.set_xlabel("Round" if window == 1 else f"Round (bold: mean of the last {window})")
    _step_evenly(axes.xaxis, integer=True)
    axes.margins(x=0.015)


def _draw_bars(
    axes: "Axes", proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
) -> None:
    """Draw a bar for each class and name, after a grey bar for all clients."""
    bar = 0.84 / (len(proportions) + 1)
    left = np.arange(len(all_clients)) - 0.42 + bar / 2
    axes.bar(left, all_clients, bar, color=GLOBAL_COLOUR, edgecolor="white", label="all clients")
    looks = method_looks(proportions)
    for position, (name, shares) in enumerate(proportions.items(), start=1):
        axes.bar(
            left + position * bar,
            shares.mean,
            bar,
            yerr=shares.sd,
            color=looks[name]["color"],
            edgecolor="white",  # separates bars in black and white
            error_kw={"elinewidth": 0.9, "ecolor": UNIFORM_COLOUR, "capsize": 0},
            label=method_label(name),
        )


def _draw_lines(
    axes: "Axes", proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
) -> None:
    classes = range(len(all_clients))
    axes.bar(classes, all_clients, width=1.0, color=GLOBAL_COLOUR, label="all clients")
    for name, look in method_looks(proportions).items():
        mean, sd = np.array(proportions[name].mean), np.array(proportions[name].sd)
        axes.plot(mean, color=look["color"], label=method_label(name))
        axes.fill_between(classes, mean - sd, mean + sd, color=look["color"], alpha=0.2, lw=0)


def label_percents(axis: "Axis") -> None:
    """Label an axis of shares in percent, with ticks at even steps."""
    _step_evenly(axis)
    axis.set_major_formatter(lambda share, _position: f"{round(100 * share, 6):g}%")


def _step_evenly(axis: "Axis", **how: Any) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - takes long

    axis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], min_n_ticks=1, **how))
