"""All figures are written, from the results alone, and show something."""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from comparison_results import RESULTS, STUDY
from matplotlib.image import imread

from dubhe_flwr.errors import DubheError
from dubhe_flwr.report import save_figures, save_study_figure


def check_picture(path: Path) -> None:
    """Check that a picture is of decent size, with the colour of every method."""
    pixels = (imread(path)[..., :3] * 255).round().astype(int)
    assert pixels.shape[0] > 600
    assert pixels.shape[1] > 1000
    for colour in ((0, 114, 178), (213, 94, 0), (0, 158, 115)):
        assert np.count_nonzero((pixels == colour).all(axis=-1)) > 500, (path.name, colour)


def test_figures_are_written_and_coloured(tmp_path: Path) -> None:
    """Four pictures of a comparison."""
    save_figures(RESULTS, tmp_path / "new")
    paths = list((tmp_path / "new").iterdir())
    names = {"accuracy.png", "class_proportions.png", "emd.png", "comparison.png"}
    assert {path.name for path in paths} == names
    for path in paths:
        check_picture(path)


def test_a_study_is_one_figure(tmp_path: Path) -> None:
    """Two panels side by side, in a folder that is made."""
    save_study_figure(STUDY, tmp_path / "new" / "study.png")
    check_picture(tmp_path / "new" / "study.png")
    height, width = imread(tmp_path / "new" / "study.png").shape[:2]
    assert width > 2 * height


def test_nothing_of_matplotlib_is_changed(tmp_path: Path) -> None:
    """The user's own settings are as before."""
    with mpl.rc_context({"font.size": 3.0, "axes.grid": False}):
        save_figures(RESULTS, tmp_path)
        assert mpl.rcParams["font.size"] == 3.0
        assert not mpl.rcParams["axes.grid"]


def test_without_matplotlib_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before the folder is made."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DubheError, match=r"dubhe-flwr\[report\]"):
        save_figures(RESULTS, tmp_path / "new")
    with pytest.raises(DubheError, match=r"dubhe-flwr\[report\]"):
        save_study_figure(STUDY, tmp_path / "new" / "study.png")
    assert not (tmp_path / "new").exists()
