"""The figures of an experiment, made from its results alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dubhe_flwr.report.comparison import ComparisonResults
from dubhe_flwr.report.results import Results
from dubhe_flwr.report.study import StudyResults
from dubhe_flwr.report.style import STYLE, require_matplotlib

__all__ = ["save_figures", "save_study_figure"]

ResultsT = TypeVar("ResultsT", bound=Results)

_NARROW = 7.0
_NARROW_BESIDE = 5.5
_WIDEST = 12.0


def save_figures(results: ComparisonResults, folder: Path) -> list[Path]:
    """Write the figures of a comparison as PNG.

    ``accuracy.png``, ``class_proportions.png`` and ``emd.png`` show one finding each,
    ``comparison.png`` the first two side by side.

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
    )

    wide = _width_of_classes(results)
    figures: dict[str, tuple[float, list[Callable[[Any, ComparisonResults], None]]]] = {
        "accuracy": (_NARROW, [draw_accuracy]),
        "class_proportions": (wide, [draw_class_proportions]),
        "emd": (_NARROW, [draw_emd]),
        "comparison": (_NARROW_BESIDE + wide, [draw_accuracy, draw_class_proportions]),
    }
    paths = []
    for name, (width, panels) in figures.items():
        paths.append(folder / f"{name}.png")
        _save(results, panels, width, paths[-1])
    return paths


def save_study_figure(results: StudyResults, path: Path) -> None:
    """Write the figure of a study as PNG: distance from uniform beside class proportions.

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
    )

    width = _NARROW_BESIDE + _width_of_classes(results)
    _save(results, [draw_emd, draw_class_proportions], width, path)


def _width_of_classes(results: Results) -> float:
    return min(_WIDEST, max(_NARROW, 0.5 * results.federation.num_classes + 2.0))


def _save(
    results: ResultsT, panels: Sequence[Callable[[Any, ResultsT], None]], width: float, path: Path
) -> None:
    """Draw panels side by side; the widest is the last."""
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    with matplotlib.rc_context(STYLE):
        # A Figure of its own draws with Agg and leaves the user's backend alone.
        figure = Figure(figsize=(width, 4.4))
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, draw in zip(all_axes, panels, strict=True):
            draw(axes, results)
        # The last panel names all that the others show.
        handles, labels = all_axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
