"""Beyond the paper: how much accuracy determination buys, with each optimizer."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import Experiment, Found, Method, PaperSettings
from dubhe_lab.paper.instead import paired_gain
from dubhe_lab.paper.page import Section
from dubhe_lab.paper.trainings import comparison_cell, final_accuracy
from dubhe_lab.report.table import Table

_KIND: Final = "determination"
_SEEDS: Final = tuple(range(10))
_ROUNDS: Final = {"full": 60, "small": 4}
_SMALL: Final = {"num_clients": 100, "key_bits": 512}

_OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SGD": {"optimizer": "sgd"},
    "server momentum": {"optimizer": "sgd", "server_momentum": 0.9},
    "Adam": {"optimizer": "adam"},
}
_USUAL: Final = "Dubhe"
_SELECTIONS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "random": ("random", {}),
    _USUAL: ("dubhe", {}),
    "Dubhe, Tries(20)": ("dubhe", {"determination": "tries"}),
    "Dubhe, Groups(4)": ("dubhe", {"determination": "grouped"}),
    "Dubhe, local skew 0.3": ("dubhe", {"local_skew": 0.3}),
    "greedy (oracle)": ("greedy", {}),
}
"""How clients are selected: a method, and its settings where they differ from the defaults."""


def _cell(selection: str, optimizer: str, seed: int, options: PaperSettings) -> Cell:
    method, given = _SELECTIONS[selection]
    settings = CompareSettings.for_dataset(
        "digits",
        methods=(method,),
        num_rounds=options.num_rounds or _ROUNDS[options.scale],
        encrypted=False,
        seed=seed,
        **({} if options.is_full else _SMALL),
        **_OPTIMIZERS[optimizer],
        **given,
    )
    return comparison_cell(_KIND, f"digits, {optimizer}, {selection}", Method(method), settings)


def _seeds(options: PaperSettings) -> Sequence[int]:
    return options.seeds or (_SEEDS if options.is_full else _SEEDS[:1])


def _cells(options: PaperSettings) -> list[Cell]:
    return [
        _cell(selection, optimizer, seed, options)
        for seed in _seeds(options)
        for optimizer in _OPTIMIZERS
        for selection in _SELECTIONS
    ]


def _report(options: PaperSettings, found: Found) -> Section:
    points = {
        (selection, optimizer): _points(selection, optimizer, options, found)
        for selection in _SELECTIONS
        for optimizer in _OPTIMIZERS
    }
    return Section(
        _KIND,
        "What determination buys",
        [
            (
                "Digits as in dubhe compare: N = 150, rho = 10, EMD_avg = 1.5, 60 rounds of K = 20 "
                "clients. Accuracy is the mean over the last quarter of the rounds and all seeds. "
                "In parentheses: points gained over Dubhe's defaults, with the standard error of "
                "the mean over paired seeds."
            )
        ],
        [_table(points)] if all(points.values()) else [],
    )


def _points(
    selection: str, optimizer: str, options: PaperSettings, found: Found
) -> dict[int, float]:
    """Return the final accuracy, in percent, of each finished seed."""
    cells = {seed: _cell(selection, optimizer, seed, options).key for seed in _seeds(options)}
    return {seed: 100 * final_accuracy(found[key]) for seed, key in cells.items() if key in found}


def _table(points: Mapping[tuple[str, str], Mapping[int, float]]) -> Table:
    def shown(selection: str, optimizer: str) -> str:
        own, usual = points[selection, optimizer], points[_USUAL, optimizer]
        accuracy = f"{fmean(own.values()):.1f}"
        if selection == _USUAL:
            return accuracy
        gains = [own[seed] - usual[seed] for seed in sorted(own.keys() & usual.keys())]
        return f"{accuracy} ({paired_gain(gains)})"

    return Table(
        "Accuracy in percent with each kind of determination",
        ("selection", *_OPTIMIZERS),
        [
            [selection, *(shown(selection, optimizer) for optimizer in _OPTIMIZERS)]
            for selection in _SELECTIONS
        ],
    )


EXPERIMENT: Final = Experiment(
    "Beyond the paper: no determination, tries and groups, with each optimizer.",
    _cells,
    _report,
    needs_all=False,
)
"""`dubhe paper determination`: how much accuracy determination buys."""
