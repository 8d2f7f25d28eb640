"""The figures of a comparison, made from its results alone."""

from pathlib import Path

from dubhe_flwr.report.results import ComparisonResults
from dubhe_flwr.report.style import STYLE, require_matplotlib

__all__ = ["save_figures"]


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
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    from dubhe_flwr.report.panels import (  # noqa: PLC0415 - needs the extra
        draw_accuracy,
        draw_class_proportions,
        draw_emd,
    )

    wide = max(7.0, 0.5 * results.federation.num_classes + 2.0)
    figures = {
        "accuracy": (7.0, [draw_accuracy]),
        "class_proportions": (wide, [draw_class_proportions]),
        "emd": (7.0, [draw_emd]),
        "comparison": (5.5 + wide, [draw_accuracy, draw_class_proportions]),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (width, panels) in figures.items():
        with matplotlib.rc_context(STYLE):
            # A Figure of its own draws with Agg and leaves the user's backend alone.
            figure = Figure(figsize=(width, 4.4))
            all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
            for axes, draw in zip(all_axes, panels, strict=True):
                draw(axes, results)
            # The last panel names all that the others show.
            handles, labels = all_axes[-1].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1])
    return paths
