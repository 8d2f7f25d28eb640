"""The figures of an experiment, made from its results alone."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dubhe_flwr.report.comparison import ComparisonResults
from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.results import Results
from dubhe_flwr.report.study import StudyResults
from dubhe_flwr.report.style import require_matplotlib

__all__ = ["save_figures", "save_study_figure"]

ResultsT = TypeVar("ResultsT", bound=Results)

_NARROW = 7.0
_NARROW_BESIDE = 5.5
_WIDEST = 12.0


def save_figures(results: ComparisonResults, folder: Path) -> list[Path]:
    """Write the figures of a comparison as PNG.

    ``accuracy.png`` and ``class_proportions.png`` show one finding each, ``comparison.png`` both
    side by side, and ``emd.png`` the two label terms of the paper's bound (eq. 3).

    Parameters
    ----------
    results : ComparisonResults
        What to show.
    folder : Path
        Where to; it is made if need be.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    DubheError
        If matplotlib is not installed.
    """
    require_matplotlib()
    from dubhe_flwr.report.panels import (  # noqa: PLC0415 - needs the extra
        draw_accuracy,
        draw_class_proportions,
        draw_emd,
        draw_local_emd,
    )

    wide = _width_of_classes(results)
    figures: dict[str, tuple[float, list[Callable[[Any, ComparisonResults], None]]]] = {
        "accuracy": (_NARROW, [draw_accuracy]),
        "class_proportions": (wide, [draw_class_proportions]),
        "emd": (2 * _NARROW_BESIDE, [draw_emd, draw_local_emd]),
        "comparison": (_NARROW_BESIDE + wide, [draw_accuracy, draw_class_proportions]),
    }
    paths = []
    for name, (width, panels) in figures.items():
        paths.append(folder / f"{name}.png")
        _save(results, panels, width, paths[-1])
    return paths


def save_study_figure(results: StudyResults, path: Path) -> None:
    """Write the figure of a study as PNG: both label terms beside class proportions.

    Parameters
    ----------
    results : StudyResults
        What to show.
    path : Path
        Where to; its folder is made if need be.

    Raises
    ------
    DubheError
        If matplotlib is not installed.
    """
    require_matplotlib()
    from dubhe_flwr.report.panels import (  # noqa: PLC0415 - needs the extra
        draw_class_proportions,
        draw_emd,
        draw_local_emd,
    )

    width = 2 * _NARROW_BESIDE + _width_of_classes(results)
    _save(results, [draw_emd, draw_local_emd, draw_class_proportions], width, path)


def _width_of_classes(results: Results) -> float:
    return min(_WIDEST, max(_NARROW, 0.5 * results.federation.num_classes + 2.0))


def _save(
    results: ResultsT, panels: Sequence[Callable[[Any, ResultsT], None]], width: float, path: Path
) -> None:
    """Draw panels side by side, with one legend for all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture([[partial(_draw, draw, results) for draw in panels]], (width, 4.4)))


def _draw(draw: Callable[[Any, ResultsT], None], results: ResultsT, axes: Any) -> None:
    draw(axes, results)
