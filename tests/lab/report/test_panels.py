"""Panels show the results' numbers in the right place, and figures consist of panels."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from comparison_results import RESULTS, method_result
from drawn import bars, heights, xs, ys
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from dubhe_lab.report.panels import (
    draw_accuracy,
    draw_emd,
    draw_shares,
    label_percents,
    save_figures,
)
from dubhe_lab.report.results import ClassProportions


@pytest.fixture
def axes() -> Axes:
    """Return empty axes."""
    return Figure().subplots()


def test_class_proportions_are_bars_side_by_side(axes: Axes) -> None:
    """Each class has one visible bar for all clients and one per method, of the right height."""
    everybody = RESULTS.federation.class_proportions
    shares = {name: method.class_proportions for name, method in RESULTS.methods.items()}
    draw_shares(axes, shares, everybody)
    wanted = [everybody, *(of.mean for of in shares.values())]
    np.testing.assert_allclose(heights(axes), wanted)
    names = [group.get_label() for group in bars(axes)]
    assert names == ["all clients", "random", "Dubhe", "greedy (oracle)"]
    edges = sorted(
        (bar.get_x(), bar.get_x() + bar.get_width()) for group in bars(axes) for bar in group
    )
    assert all(right <= left + 1e-9 for (_, right), (left, _) in pairwise(edges))
    uniform = next(line for line in axes.lines if line.get_label() == "uniform")
    assert ys(uniform) == [0.1, 0.1]


def test_many_classes_are_lines(axes: Axes) -> None:
    """Above 20 classes each method is a line inside a band of its standard deviation."""
    shares = tuple((np.arange(1, 53) / np.arange(1, 53).sum()).tolist())
    proportions = dict.fromkeys(RESULTS.methods, ClassProportions(mean=shares, sd=(0.001,) * 52))
    draw_shares(axes, proportions, shares)
    lines = [line for line in axes.lines if line.get_label() != "uniform"]
    assert [line.get_label() for line in lines] == ["random", "Dubhe", "greedy (oracle)"]
    np.testing.assert_allclose(ys(lines[1]), shares)
    assert len(axes.collections) == 3
    highest = axes.collections[0].get_paths()[0].get_extents().ymax
    assert highest == pytest.approx(shares[-1] + 0.001)
    np.testing.assert_allclose(heights(axes), [shares])


def test_accuracy_begins_with_the_initial_model(axes: Axes) -> None:
    """A few rounds are drawn unsmoothed, one line per method from round 0."""
    short = {name: method_result(name, num_rounds=20) for name in RESULTS.methods}
    draw_accuracy(axes, short)
    assert len(axes.lines) == len(short)
    for line, method in zip(axes.lines, short.values(), strict=True):
        assert (xs(line), ys(line)) == (list(range(21)), list(method.accuracy))


def test_rounds_without_a_value_lie_between_their_neighbours(axes: Axes) -> None:
    """A line has a point for each round, and markers only where the model was evaluated."""
    method = replace(method_result("random", 4), accuracy=(0.0, None, None, 0.3, 0.5))
    draw_accuracy(axes, {"random": method})
    (line,) = axes.lines
    assert (xs(line), line.get_markevery()) == ([0, 1, 2, 3, 4], [0, 3, 4])
    np.testing.assert_allclose(ys(line), [0.0, 0.1, 0.2, 0.3, 0.5])


def test_many_rounds_are_smoothed(axes: Axes) -> None:
    """From 31 rounds on, a light line is raw and a bold one smoothed, as the label says."""
    draw_emd(axes, RESULTS.methods)
    assert len(axes.lines) == 2 * len(RESULTS.methods)
    assert "mean of the last 3" in axes.get_xlabel()
    raw, smoothed = map(ys, axes.lines[:2])
    np.testing.assert_allclose(raw, RESULTS.methods["random"].emd)
    np.testing.assert_allclose(smoothed[:4], [raw[0], raw[1], np.mean(raw[1:3]), np.mean(raw[1:4])])
    assert smoothed[-1] == pytest.approx(np.mean(raw[-3:]))
    assert xs(axes.lines[0]) == list(range(1, 41))


def test_the_other_label_term_is_drawn_by_round(axes: Axes) -> None:
    """The local label term is one line per method from round 1."""
    methods = {"greedy": replace(method_result("greedy", 3), local_emd=(1.0, 1.2, 1.1))}
    draw_emd(axes, methods, of="local_emd")
    (line,) = axes.lines
    assert (xs(line), ys(line)) == ([1, 2, 3], [1.0, 1.2, 1.1])


def test_a_single_high_round_has_room_and_whole_ticks(axes: Axes) -> None:
    """Markers are not cut off at the top, and a figure of one round has no tick at 0.98."""
    method = method_result("greedy", 1)
    highest = {"greedy": 1.4, "random": 1.39}
    methods = {name: replace(method, local_emd=(high,)) for name, high in highest.items()}
    draw_emd(axes, methods, of="local_emd")
    assert axes.get_ylim() == pytest.approx((0, 1.47))
    assert [tick for tick in axes.get_xticks() if 0.9 < tick < 1.1] == [1]


def test_percent_labels_are_not_rounded() -> None:
    """Tick labels show fractions of a percent rather than round them."""
    axes = Figure().subplots()
    for low, high in ((0.1, 0.28), (0.90, 0.93), (0.0, 1.0), (0.0, 0.002)):
        axes.set_ylim(low, high)
        label_percents(axes.yaxis)
        ticks = axes.get_yticks()
        shown = [axes.yaxis.get_major_formatter()(tick) for tick in ticks]
        assert [float(text.rstrip("%")) for text in shown] == pytest.approx(100 * ticks)


def test_figures_are_written_and_coloured(tmp_path: Path) -> None:
    """A comparison has two pictures, which are large enough and show every method."""
    save_figures(RESULTS, tmp_path / "new")
    paths = list((tmp_path / "new").iterdir())
    assert {path.name for path in paths} == {"comparison.png", "emd.png"}
    for path in paths:
        pixels = (imread(path)[..., :3] * 255).round().astype(int)
        assert pixels.shape[0] > 600
        assert pixels.shape[1] > 1000
        for colour in ((0, 114, 178), (213, 94, 0), (0, 158, 115)):
            assert np.count_nonzero((pixels == colour).all(axis=-1)) > 500, (path.name, colour)
