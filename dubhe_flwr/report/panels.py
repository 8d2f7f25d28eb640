"""The figures of an experiment, made from its results alone, and the panels they consist of."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.report.picture import (
    GLOBAL_COLOUR,
    UNIFORM_COLOUR,
    method_colours,
    method_label,
    method_looks,
    picture,
)
from dubhe_flwr.report.results import ClassProportions, ComparisonResults, Results, StudyResults

if TYPE_CHECKING:  # an extra
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "draw_accuracy",
    "draw_by_round",
    "draw_class_proportions",
    "draw_emd",
    "draw_local_emd",
    "draw_share_bars",
    "label_percents",
    "save_figures",
    "save_study_figure",
]

_NARROW: Final = 7.0
_NARROW_BESIDE: Final = 5.5
_WIDEST: Final = 12.0
_SMOOTHED_FROM: Final = 31
_MOST_BARS: Final = 20


def save_figures(results: ComparisonResults, folder: Path) -> None:
    """Write the figures of a comparison as PNG, into a folder that is made if need be.

    ``accuracy.png`` and ``class_proportions.png`` show one finding each, ``comparison.png`` both
    side by side, and ``emd.png`` the two label terms of the paper's bound (eq. 3).
    """
    wide = _width_of_classes(results)
    figures: dict[str, tuple[float, list[Callable[..., None]]]] = {
        "accuracy": (_NARROW, [draw_accuracy]),
        "class_proportions": (wide, [draw_class_proportions]),
        "emd": (2 * _NARROW_BESIDE, [draw_emd, draw_local_emd]),
        "comparison": (_NARROW_BESIDE + wide, [draw_accuracy, draw_class_proportions]),
    }
    for name, (width, panels) in figures.items():
        _save(panels, results, width, folder / f"{name}.png")


def save_study_figure(results: StudyResults, path: Path) -> None:
    """Write the figure of a study as PNG: both label terms beside class proportions."""
    width = 2 * _NARROW_BESIDE + _width_of_classes(results)
    _save([draw_emd, draw_local_emd, draw_class_proportions], results, width, path)


def _width_of_classes(results: Results) -> float:
    return min(_WIDEST, max(_NARROW, 0.5 * results.federation.num_classes + 2.0))


def _save(
    panels: Sequence[Callable[..., None]], results: Results, width: float, path: Path
) -> None:
    """Draw panels side by side, with one legend for all."""
    drawn = picture([[partial(draw, results=results) for draw in panels]], (width, 4.4))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawn)


def draw_accuracy(axes: "Axes", results: ComparisonResults) -> None:
    """Draw the test accuracy over the rounds, smoothed where there are many."""
    draw_by_round(axes, {n: m.accuracy for n, m in results.methods.items()}, first_round=0)
    label_percents(axes.yaxis)
    axes.set_ylabel("Test accuracy")
    axes.set_title("Accuracy over rounds")


def draw_emd(axes: "Axes", results: Results) -> None:
    """Draw the distance of the selected data from uniform, over the rounds."""
    draw_by_round(axes, {n: m.emd for n, m in results.methods.items()}, first_round=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(r"$\|p_o - p_u\|_1$  (0 is uniform)")
    axes.set_title("Distance of the selected data from uniform")


def draw_local_emd(axes: "Axes", results: Results) -> None:
    """Draw the distance of the selected clients' data from all of it, over the rounds."""
    draw_by_round(axes, {n: m.local_emd for n, m in results.methods.items()}, first_round=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(r"mean of $\|p_l^k - p_o\|_1$")
    axes.set_title("Distance of clients from the selected data")


def draw_class_proportions(axes: "Axes", results: Results) -> None:
    """Draw the class proportions of the selected data beside those of all clients' data.

    As bars, or as lines where there are more classes than a reader tells bars apart.
    """
    num_classes = results.federation.num_classes
    proportions = {name: method.class_proportions for name, method in results.methods.items()}
    if num_classes <= _MOST_BARS:
        draw_share_bars(axes, proportions, results.federation.class_proportions)
        axes.set_xticks(range(num_classes))
        axes.set_xlabel("Class (lines: standard deviation over rounds)")
    else:
        _draw_lines(axes, proportions, results.federation.class_proportions)
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


def draw_by_round(
    axes: "Axes", series: Mapping[str, Sequence[float | None]], first_round: int
) -> None:
    """Draw a line over the rounds for each name, smoothed where there are many rounds.

    Rounds without a value (None) lie on the line between their neighbours.
    """
    looks = method_looks(series)
    window = 1
    for name, measured in series.items():
        rounds = np.arange(first_round, first_round + len(measured))
        pairs = [pair for pair in zip(rounds, measured, strict=True) if pair[1] is not None]
        known, reached = np.array(pairs, dtype=np.float64).T
        values = np.interp(rounds, known, reached)
        if len(values) - 1 + first_round >= _SMOOTHED_FROM:
            window = max(2, len(values) // 12)
            axes.plot(rounds, values, color=looks[name]["color"], alpha=0.28, linewidth=1)
        axes.plot(
            rounds,
            _trailing_mean(values, window),
            **looks[name],
            markevery=max(1, len(values) // 8),
            label=method_label(name),
        )
    axes.set_xlabel("Round" if window == 1 else f"Round (bold: mean of the last {window})")
    _step_evenly(axes.xaxis, integer=True)
    axes.margins(x=0.015)


def draw_share_bars(
    axes: "Axes", proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
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


def _draw_lines(
    axes: "Axes", proportions: Mapping[str, ClassProportions], all_clients: Sequence[float]
) -> None:
    classes = np.arange(len(all_clients))
    axes.bar(classes, all_clients, width=1.0, color=GLOBAL_COLOUR, label="all clients")
    colours = method_colours(proportions)
    for name, shares in proportions.items():
        mean, sd = np.array(shares.mean), np.array(shares.sd)
        axes.plot(classes, mean, color=colours[name], label=method_label(name))
        axes.fill_between(classes, mean - sd, mean + sd, color=colours[name], alpha=0.2, lw=0)


def label_percents(axis: "Axis") -> None:
    """Label an axis of shares in percent, at even steps and without rounding."""
    _step_evenly(axis)
    axis.set_major_formatter(lambda share, _position: f"{round(100 * share, 6):g}%")


def _step_evenly(axis: "Axis", **how: Any) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an extra

    axis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], **how))


def _trailing_mean(values: ArrayLike, window: int) -> NDArray[np.float64]:
    """Return the mean of each value and those before it; the first one stays as it is.

    So curves that start together are seen to start together.
    """
    series = np.asarray(values, dtype=np.float64)
    means = [series[max(1, i - window + 1) : i + 1].mean() for i in range(1, series.size)]
    return np.append(series[:1], means)
