"""The figures of an experiment, made from its results alone."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dubhe_flwr.report.picture import Panel, picture, require_matplotlib
from dubhe_flwr.report.results import ComparisonResults, Results, StudyResults

__all__ = ["save_figures", "save_study_figure"]

_NARROW = 7.0
_NARROW_BESIDE = 5.5
_WIDEST = 12.0


def save_figures(results: ComparisonResults, folder: Path) -> None:
    """Write the figures of a comparison as PNG, into a folder that is made if need be.

    ``accuracy.png`` and ``class_proportions.png`` show one finding each, ``comparison.png`` both
    side by side, and ``emd.png`` the two label terms of the paper's bound (eq. 3).

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
    accuracy = partial(draw_accuracy, results=results)
    classes = partial(draw_class_proportions, results=results)
    terms = [partial(draw, results=results) for draw in (draw_emd, draw_local_emd)]
    figures: dict[str, tuple[float, list[Panel]]] = {
        "accuracy": (_NARROW, [accuracy]),
        "class_proportions": (wide, [classes]),
        "emd": (2 * _NARROW_BESIDE, [*terms]),
        "comparison": (_NARROW_BESIDE + wide, [accuracy, classes]),
    }
    for name, (width, panels) in figures.items():
        _save(panels, width, folder / f"{name}.png")


def save_study_figure(results: StudyResults, path: Path) -> None:
    """Write the figure of a study as PNG: both label terms beside class proportions.

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
    panels = (draw_emd, draw_local_emd, draw_class_proportions)
    _save([partial(draw, results=results) for draw in panels], width, path)


def _width_of_classes(results: Results) -> float:
    return min(_WIDEST, max(_NARROW, 0.5 * results.federation.num_classes + 2.0))


def _save(panels: Sequence[Panel], width: float, path: Path) -> None:
    """Draw panels side by side, with one legend for all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture([panels], (width, 4.4)))
