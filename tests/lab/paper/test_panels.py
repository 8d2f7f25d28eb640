"""The panels of the paper's figures show the given numbers."""

import numpy as np
import pytest
from drawn import bars, heights, xs, ys
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubhe_lab.paper.panels import draw_reach, draw_registry, draw_unbiasedness
from dubhe_lab.report.methods import method_looks


@pytest.fixture
def axes() -> Axes:
    """Return empty axes."""
    return Figure().subplots()


def test_unbiasedness_is_bars_lines_and_a_baseline(axes: Axes) -> None:
    """Means are bars, and standard deviations are lines through the bars' centres."""
    draw_unbiasedness(
        axes,
        participants=[10, 20],
        means={"random": [0.8, 0.7], "greedy": [0.1, 0.05]},
        deviations={"random": [0.2, 0.1], "greedy": [0.02, 0.01]},
        global_distance=0.5,
        title="both",
    )
    assert heights(axes) == [[0.8, 0.7], [0.1, 0.05]]
    assert [ys(line) for line in axes.lines] == [[0.2, 0.1], [0.02, 0.01], [0.5, 0.5]]
    bar = bars(axes)[1][0]
    assert xs(axes.lines[1])[0] == pytest.approx(bar.get_x() + bar.get_width() / 2)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10", "20"]


def test_every_category_has_a_block_with_its_count(axes: Axes) -> None:
    """Every category is a named block with its count, darker for more clients."""
    counts = {(0,): 5, (1,): 0, (2,): 3, (0, 1): 2, (0, 2): 1, (1, 2): 0, (0, 1, 2): 4}
    draw_registry(axes, counts=counts, num_classes=3)
    texts = [text.get_text() for text in axes.texts]
    assert dict(zip(texts[::2], texts[1::2], strict=True)) == {
        "(0)": "5", "(1)": "0", "(2)": "3", "(0,1)": "2", "(0,2)": "1", "(1,2)": "0", "(all)": "4",
    }  # fmt: skip
    depth = [float(np.asarray(patch.get_facecolor())[3]) for patch in axes.patches]
    assert depth[0] == 1.0
    assert depth[1] == 0.0
    corners = {(patch.get_x(), patch.get_y()) for patch in axes.patches}  # type: ignore[attr-defined]
    assert len(corners) == 7


def test_reach_is_a_named_point_for_each_method(axes: Axes) -> None:
    """Each method is a named point: the share of clients that trained by the accuracy."""
    points = {"random": (0.9, 0.6), "dubhe": (0.4, 0.7)}
    draw_reach(axes, points=points, looks=method_looks(points), title="reach")
    assert [(*xs(line), *ys(line)) for line in axes.lines] == list(points.values())
    assert [line.get_label() for line in axes.lines] == ["random", "Dubhe"]
    assert len({line.get_marker() for line in axes.lines}) == 2
