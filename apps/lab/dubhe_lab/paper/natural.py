"""Beyond the paper: natural federations, whose skew comes from schools, lecturers and users."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, Final, NamedTuple

from dubhe_lab.data.natural import NATURAL
from dubhe_lab.experiments.my_federation import study
from dubhe_lab.experiments.settings import CompareSettings, MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    Seeds,
    spread,
)
from dubhe_lab.paper.trainings import (
    TrainingCellSettings,
    comparison_cell,
    costs_of,
    device_name,
    final_mean,
    methods_of,
)
from dubhe_lab.report.methods import method_label
from dubhe_lab.report.table import Table

_KIND: Final = "natural"
_SEEDS: Final = (0, 1, 2, 3, 4)
_ROUNDS: Final = {"full": 100, "small": 6}
_PARTICIPANTS: Final = 20
_METRICS: Final = ("accuracy", "balanced_accuracy", "worst_recall")


class _Federation(NamedTuple):
    """A natural federation's title, its number of classes, and its clients' number of samples."""

    title: str
    num_classes: int
    num_samples: int


_FEDERATIONS: Final = {
    "chem97": _Federation("Chem97: pupils by school", 6, 16),
    "insteval": _Federation("InstEval: ratings by lecturer", 5, 32),
    "movielens": _Federation("MovieLens: ratings by user", 10, 64),
}

_OWN_MIX: Final = "dubhe, own mix"
_WAYS: Final = {
    **{name: Method(name) for name in ("random", "powd", "greedy", "dubhe")},
    _OWN_MIX: Method("dubhe"),
}
"""The methods; the last one aims at the federation's own class mix instead of uniform."""


def _given(name: str, options: PaperSettings) -> dict[str, Any]:
    of = _FEDERATIONS[name]
    return {
        "num_rounds": _ROUNDS[options.scale],
        "num_participants": _PARTICIPANTS,
        "num_clients": NATURAL[name].num_clients,
        "num_samples": of.num_samples,
        "reference_set": (1, 2, of.num_classes),
        "learning_rate": 0.1,
        "epochs": 2,
        "evaluate_every": 5,
        "encrypted": False,
    }


def _training(name: str, way: str, seed: int, options: PaperSettings) -> Cell:
    """Return the cell that trains; its identity has no skew, since the federation is given."""
    mix = {"target": "own"} if way == _OWN_MIX else {}
    cell = comparison_cell(name, name, _WAYS[way], seed, **_given(name, options), **mix)
    drawn = {"rho", "emd", "generator"}
    config = {key: value for key, value in cell.config.items() if key not in drawn}
    return replace(cell, name=f"{name}, {way}, seed {seed}", config=config)


def _study(name: str, options: PaperSettings) -> Cell:
    """Return the cell of a federation's study, with the samples of the first seed."""
    settings = TrainingCellSettings.for_dataset(name, seed=0, **_given(name, options))
    config = {
        "dataset": name,
        "num_samples": settings.federation.num_samples,
        "num_participants": _PARTICIPANTS,
        "seed": 0,
    }
    measured = partial(_measure_study, settings)
    return Cell(_KIND, f"{name}, study", config, measured)


def _measure_study(
    settings: CompareSettings, machine: MachineSettings, _advance: Advance
) -> Measured:
    from dubhe_lab.paper.scenarios import scenario_of  # noqa: PLC0415 - imports torch

    counts = scenario_of(replace(settings, machine=machine)).federation.label_counts
    found = study(counts, num_participants=_PARTICIPANTS, equal_weights=True)
    return Measured(
        {
            "helps": found.helps,
            "rho": found.rho,
            "emd": found.emd,
            "distance": {name: of.distance for name, of in found.methods.items()},
            "lasting": {name: of.lasting for name, of in found.methods.items()},
        },
        device=device_name(machine),
    )


def _grid(options: PaperSettings) -> Grid:
    seeds = options.seeds_or(_SEEDS)
    return {
        name: {
            "study": [_study(name, options)],
            **{way: [_training(name, way, seed, options) for seed in seeds] for way in _WAYS},
        }
        for name in _FEDERATIONS
    }


def _report(_options: PaperSettings, results: Results) -> Section:
    return Section(
        "Natural federations",
        [
            (
                "Clients are schools, lecturers and users, with the same number of their own "
                "samples each. K = 20, SGD, two epochs per round, and a network with one hidden "
                "layer. The test data has the federation's own class mix, so rare classes hardly "
                "affect the accuracy; balanced accuracy is the mean recall over classes. ± is the "
                "largest distance of a seed from the mean."
            )
        ],
        [_table(name, of) for name, of in results.items()],
    )


def _table(name: str, of_ways: Mapping[str, Seeds]) -> Table:
    caption = _FEDERATIONS[name].title
    for studied in of_ways["study"].values():
        skew = f"rho = {studied['rho']:.1f}, EMD_avg = {studied['emd']:.2f}"
        caption += f" ({skew}). Does Dubhe help? The study says: {studied['helps']}"
    rows = [
        [method_label(way), *_row(method, of_ways[way])]
        for way, method in _WAYS.items()
        if of_ways[way]
    ]
    return Table(
        caption,
        (
            "method",
            "accuracy\n%",
            "balanced\naccuracy %",
            "worst\nrecall %",
            "EMD*",
            "coverage\n%",
            "server\nlearns",
            "extra\nwork",
        ),
        rows,
    )


def _row(method: Method, of_seeds: Seeds) -> list[str]:
    trained = methods_of(of_seeds)
    tested = ([100 * final_mean(result, name) for result in of_seeds.values()] for name in _METRICS)
    return [
        *(spread(percents, 1).replace(" ", "") for percents in tested),
        f"{fmean(of['mean_emd'] for of in trained):.3f}",
        f"{100 * fmean(of['coverage'] for of in trained):.0f}",
        *costs_of(method, of_seeds),
    ]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: federations by school, lecturer and user.",
    _grid,
    _report,
)
