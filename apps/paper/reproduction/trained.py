"""What the experiments with training have in common: their methods and how they are read."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_flwr.data import NamedFederation
from dubhe_flwr.report import ComparisonResults
from dubhe_flwr.report.picture import Panel, picture
from dubhe_flwr.report.section import Picture
from reproduction.cell import Cell
from reproduction.experiment import Found, finished
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.training import training_cell

__all__ = [
    "METHODS",
    "Trainings",
    "accuracies",
    "curves_of",
    "final_accuracy",
    "together",
    "trainings",
]

METHODS: Final = (Method("random"), Method("dubhe-paper", 1), Method("dubhe"), Method("greedy"))
"""The paper's three and this package's own."""

Trainings = Mapping[str, list[Cell]]
"""The cells of each method, one for each seed."""

_LAST_ROUNDS: Final = 50


def trainings(
    name: str,
    options: Options,
    methods: tuple[Method, ...] = METHODS,
    default_seeds: tuple[int, ...] = (0,),
    **given: Any,
) -> dict[str, list[Cell]]:
    """Return the cells of all methods in one federation.

    Parameters
    ----------
    name : str
        Of the federation, as in the paper.
    options : Options
        Scale, seeds and rounds.
    methods : tuple of Method, optional
        Which to train with.
    default_seeds : tuple of int (default: 0)
        Seeds at full scale, if the user names none.
    **given
        Further settings of the comparison.

    Examples
    --------
    >>> {name: len(cells) for name, cells in trainings("MNIST-10/1.5", Options()).items()}
    {'random': 1, 'dubhe-paper, H=1': 1, 'dubhe': 1, 'greedy': 1}
    """
    federation = NamedFederation.parse(name)
    seeds = options.seeds or (default_seeds if options.is_full else (0,))
    return {
        str(method): [training_cell(federation, method, seed, options, **given) for seed in seeds]
        for method in methods
    }


def final_accuracy(result: Mapping[str, Any]) -> float:
    """Return the mean accuracy over the last 50 rounds, or the last quarter of fewer than 200.

    All of these were evaluated.

    Examples
    --------
    >>> final_accuracy({"methods": {"random": {"accuracy": [0.1, 0.2, 0.3, 0.4, 0.5]}}})
    0.5
    """
    (method,) = result["methods"].values()
    accuracy = method["accuracy"][1:]
    return fmean(accuracy[-min(_LAST_ROUNDS, max(1, len(accuracy) // 4)) :])


def accuracies(cells: list[Cell], found: Found) -> list[float]:
    """Return the final accuracy of each seed that is finished."""
    return [final_accuracy(result) for result in finished(cells, found)]


def together(cells: Trainings, found: Found) -> ComparisonResults | None:
    """Return the first seed of each finished method as one comparison, or None if none is."""
    methods, federation = {}, None
    for name, of_seeds in cells.items():
        result = found.get(of_seeds[0].key)
        if result is not None:
            (methods[name],) = result["methods"].values()
            federation = result["federation"]
    if federation is None:
        return None
    return ComparisonResults.from_dict({"config": {}, "federation": federation, "methods": methods})


def curves_of(name: str, federations: Mapping[str, Trainings], found: Found) -> list[Picture]:
    """Return a picture of the rounds of each federation, of the first seed, or none if none is.

    Parameters
    ----------
    name : str
        Of the picture.
    federations : mapping of str to trainings
        By their names, the cells of each method.
    found : mapping
        What is finished.
    """
    rows = [
        _curves(federation, results)
        for federation, cells in federations.items()
        if (results := together(cells, found)) is not None
    ]
    if not rows:
        return []
    caption = (
        "Test accuracy beside both label terms of the bound of the weight divergence (eq. 3), "
        "which rise with the distance of the selected data from uniform and with that of the "
        "clients from the selected data."
    )
    return [Picture(name, caption, picture(rows, (14, 3.7 * len(rows))))]


def _curves(federation: str, results: ComparisonResults) -> list[Panel]:
    from reproduction.panels import draw_curves  # noqa: PLC0415 - an extra

    methods = results.methods.items()
    return [
        partial(draw_curves, series={n: m.accuracy for n, m in methods}, title=federation),
        partial(
            draw_curves,
            series={n: m.emd for n, m in methods},
            title="Selected data from uniform",
            label=r"$\|p_o - p_u\|_1$",
        ),
        partial(
            draw_curves,
            series={n: m.local_emd for n, m in methods},
            title="Clients from the selected data",
            label=r"mean of $\|p_l^k - p_o\|_1$",
        ),
    ]
