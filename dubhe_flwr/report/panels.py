"""The panels of which figures are made: each draws one finding into given axes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.report.picture import (
    GLOBAL_COLOUR,
    UNIFORM_COLOUR,
    method_colours,
    method_label,
    method_looks,
)
from dubhe_flwr.report.results import ClassProportions, ComparisonResults, Results

__all__ = [
    "draw_accuracy",
    "draw_by_round",
    "draw_class_proportions",
    "draw_emd",
    "draw_local_emd",
    "draw_share_bars",
    "label_percents",
    "trailing_mean",
]

_SMOOTHED_FROM = 31
_MOST_BARS = 20


def trailing_mean(values: ArrayLike, window: int) -> NDArray[np.float64]:
    """Return the mean of each value and those before it; the first one stays as it is.

    So curves that start together are seen to start together.

    Examples
    --------
    >>> trailing_mean([0.0, 3.0, 5.0, 7.0], window=2).tolist()
    [0.0, 3.0, 4.0, 6.0]
    """
    series = np.asarray(values, dtype=np.float64)
    means = [series[max(1, i - window + 1) : i + 1].mean() for i in range(1, series.size)]
    return np.append(series[:1], means)


def label_percents(axis: Axis) -> None:
    """Label an axis of shares in percent, at even steps and without rounding."""
    axis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _position: f"{round(100 * share, 6):g}%"))


def draw_accuracy(axes: Axes, results: ComparisonResults) -> None:
    """Draw the test accuracy over the rounds, smoothed where there are many."""
    draw_by_round(axes, {n: m.accuracy for n, m in results.methods.items()}, first_round=0)
    label_percents(axes.yaxis)
    axes.set_ylabel("Test accuracy")
    axes.set_title("Accuracy over rounds")


def draw_emd(axes: Axes, results: Results) -> None:
    """Draw the distance of the selected data from uniform, over the rounds."""
    draw_by_round(axes, {n: m.emd for n, m in results.methods.items()}, first_round=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(r"$\|p_o - p_u\|_1$  (0 is uniform)")
    axes.set_title("Distance of the selected data from uniform")


def draw_local_emd(axes: Axes, results: Results) -> None:
    """Draw the distance of the selected clients' data from all of it, over the rounds."""
    draw_by_round(axes, {n: m.local_emd for n, m in results.methods.items()}, first_round=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(r"mean of $\|p_l^k - p_o\|_1$")
    axes.set_title("Distance of clients from the selected data")


def draw_class_proportions(axes: Axes, results: Results) -> None:
    """Draw the class proportions of the selected data beside those of all clients' data.

    As bars, or as lines where there are more classes than a reader tells bars apart.
    """
    num_classes = results.federation.num_classes
    if num_classes <= _MOST_BARS:
        _draw_bars(axes, results)
        axes.set_xticks(range(num_classes))
        label_percents(axes.yaxis)
    else:
        _draw_lines(axes, results)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        label_percents(axes.yaxis)
    axes.axhline(
        1 / num_classes, color=UNIFORM_COLOUR, linestyle="--", linewidth=1.2, label="uniform"
    )
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, num_classes - 0.4)
    axes.set_ylabel("Share of the selected data")
    axes.set_title("Class proportions of the selected data")


def draw_by_round(
    axes: Axes, series: Mapping[str, Sequence[float | None]], first_round: int
) -> None:
    """Draw a line over the rounds for each name, smoothed where there are many rounds.

    Rounds without a value (None) lie on the line between their neighbours.
    """
    looks = method_looks(series)
    window = 1
    for name, measured in series.items():
        rounds = np.arange(first_round, first_round + len(measured))
        known = [
            number for number, value in zip(rounds, measured, strict=True) if value is not None
        ]
        values = np.interp(rounds, known, [value for value in measured if value is not None])
        if len(values) - 1 + first_round >= _SMOOTHED_FROM:
            window = max(2, len(values) // 12)
            axes.plot(rounds, values, color=looks[name]["color"], alpha=0.28, linewidth=1)
        axes.plot(
            rounds,
            trailing_mean(values, window),
            **looks[name],
            markevery=max(1, len(values) // 8),
            label=method_label(name),
        )
    axes.set_xlabel("Round" if window == 1 else f"Round (bold: mean of the last {window})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.margins(x=0.015)


def draw_share_bars(
    axes: Axes, proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
) -> None:
    """Draw a bar for each class and name, beside a grey one for all clients if there are any."""
    bar = 0.84 / (len(proportions) + bool(all_clients))
    left = np.arange(len(next(iter(proportions.values())).mean)) - 0.42 + bar / 2
    if all_clients:
        axes.bar(left, all_clients, bar, color=GLOBAL_COLOUR, label="all clients")
        left += bar
    colours = method_colours(proportions)
    for position, (name, shares) in enumerate(proportions.items()):
        axes.bar(
            left + position * bar,
            shares.mean,
            bar,
            yerr=shares.sd,
            color=colours[name],
            error_kw={"elinewidth": 0.9, "ecolor": UNIFORM_COLOUR, "capsize": 0},
            label=method_label(name),
        )


def _draw_bars(axes: Axes, results: Results) -> None:
    proportions = {name: method.class_proportions for name, method in results.methods.items()}
    draw_share_bars(axes, proportions, results.federation.class_proportions)
    axes.set_xlabel("Class (lines: standard deviation over rounds)")


def _draw_lines(axes: Axes, results: Results) -> None:
    classes = np.arange(results.federation.num_classes)
    axes.bar(
        classes,
        results.federation.class_proportions,
        width=1.0,
        color=GLOBAL_COLOUR,
        label="all clients",
    )
    colours = method_colours(results.methods)
    for name, method in results.methods.items():
        mean, sd = np.array(method.class_proportions.mean), np.array(method.class_proportions.sd)
        axes.plot(classes, mean, color=colours[name], label=method_label(name))
        axes.fill_between(classes, mean - sd, mean + sd, color=colours[name], alpha=0.2, lw=0)
    axes.set_xlabel("Class (bands: standard deviation over rounds)")
