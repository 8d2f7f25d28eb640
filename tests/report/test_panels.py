"""Panels show the numbers of the results, in the right place."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from comparison_results import RESULTS, method_result
from drawn import bars, heights, xs, ys
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubhe_flwr.report import ClassProportions
from dubhe_flwr.report.panels import (
    draw_accuracy,
    draw_by_round,
    draw_class_proportions,
    draw_emd,
    draw_local_emd,
    label_percents,
    moving_average,
)


@pytest.fixture
def axes() -> Axes:
    """Return empty axes."""
    return Figure().subplots()


def test_class_proportions_are_bars_beside_each_other(axes: Axes) -> None:
    """Each class has one bar for all clients and one a method, of the right height, none hidden."""
    draw_class_proportions(axes, RESULTS)
    shares = [method.class_proportions.mean for method in RESULTS.methods.values()]
    np.testing.assert_allclose(heights(axes), [RESULTS.federation.class_proportions, *shares])
    edges = sorted((b.get_x(), b.get_x() + b.get_width()) for of in bars(axes) for b in of)
    assert all(right <= left + 1e-9 for (_, right), (left, _) in pairwise(edges))
    assert ys(next(line for line in axes.lines if line.get_label() == "uniform")) == [0.1, 0.1]


def test_many_classes_are_lines(axes: Axes) -> None:
    """Above 20 classes each method is a line within the band of its standard deviation."""
    shares = tuple((np.arange(1, 53) / np.arange(1, 53).sum()).tolist())
    proportions = ClassProportions(mean=shares, sd=(0.001,) * 52)
    methods = {
        name: replace(method, class_proportions=proportions)
        for name, method in RESULTS.methods.items()
    }
    federation = replace(RESULTS.federation, num_classes=52, class_proportions=shares)
    draw_class_proportions(axes, replace(RESULTS, federation=federation, methods=methods))
    lines = [line for line in axes.lines if line.get_label() != "uniform"]
    assert [line.get_label() for line in lines] == ["random", "Dubhe", "greedy (oracle)"]
    assert ys(lines[1]) == pytest.approx(shares)
    assert len(axes.collections) == 3
    highest = axes.collections[0].get_paths()[0].get_extents().ymax
    assert highest == pytest.approx(shares[-1] + 0.001)
    np.testing.assert_allclose(heights(axes), [shares])


def test_accuracy_begins_with_the_initial_model(axes: Axes) -> None:
    """Few rounds are drawn as they are: one line a method, from round 0."""
    short = {name: method_result(name, num_rounds=20) for name in RESULTS.methods}
    draw_accuracy(axes, replace(RESULTS, methods=short))
    assert [xs(line) for line in axes.lines] == [list(range(21))] * len(short)
    for line, method in zip(axes.lines, short.values(), strict=True):
        assert ys(line) == pytest.approx(method.accuracy)


def test_rounds_without_a_value_lie_between_their_neighbours(axes: Axes) -> None:
    """The line has a point for each round, whether or not the model was evaluated after it."""
    draw_by_round(axes, {"random": [0.0, None, None, 0.3, 0.5]}, first_round=0)
    (line,) = axes.lines
    assert xs(line) == [0, 1, 2, 3, 4]
    assert ys(line) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.5])


def test_many_rounds_are_smoothed_over_the_raw_values(axes: Axes) -> None:
    """From 31 rounds on there is a light raw line and a bold one, and the label says so."""
    draw_emd(axes, RESULTS)
    assert len(axes.lines) == 2 * len(RESULTS.methods)
    assert "moving average over 3" in axes.get_xlabel()
    raw, smoothed = (ys(line) for line in axes.lines[:2])
    assert raw == pytest.approx(RESULTS.methods["random"].emd)
    assert np.std(smoothed) < np.std(raw)
    assert xs(axes.lines[0]) == list(range(1, 41))


def test_the_other_label_term_is_drawn_by_round(axes: Axes) -> None:
    """From round 1 on, a line a method."""
    methods = {"greedy": replace(method_result("greedy", 3), local_emd=(1.0, 1.2, 1.1))}
    draw_local_emd(axes, replace(RESULTS, methods=methods))
    (line,) = axes.lines
    assert (xs(line), ys(line)) == ([1, 2, 3], [1.0, 1.2, 1.1])


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=9, max_size=60),
    st.integers(0, 4).map(lambda half: 2 * half + 1),
)
def test_moving_average_is_that_of_the_neighbours(values: list[float], window: int) -> None:
    """Every value is the plain mean of the rounds at most half a window away."""
    half = window // 2
    wanted = [np.mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
    np.testing.assert_allclose(moving_average(values, window), wanted, atol=1e-6)


def test_percents_are_labelled_as_they_are(axes: Axes) -> None:
    """No tick between two whole percents is rounded to one of them."""
    for low, high in ((0.1, 0.28), (0.90, 0.93), (0.0, 1.0), (0.0, 0.002)):
        axes.set_ylim(low, high)
        label_percents(axes.yaxis)
        ticks = axes.get_yticks()
        shown = [axes.yaxis.get_major_formatter()(tick) for tick in ticks]
        assert [float(text.rstrip("%")) for text in shown] == pytest.approx(100 * ticks)
