"""Multi-time selection: distance and accuracy over the number of tries H (paper, Table 2)."""

from statistics import fmean
from typing import Final, get_args

from dubhe_flwr.data import PartitionKind
from dubhe_flwr.report.section import Section, Table
from reproduction.cell import Cell
from reproduction.experiment import (
    SKEW,
    Experiment,
    Found,
    finished,
    spread,
)
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.paper import TABLE_2
from reproduction.selecting import study_cell
from reproduction.trained import (
    accuracies,
    curves_of,
    trainings,
)

__all__ = ["EXPERIMENT"]

_TRIES: Final = (1, 2, 5, 10, 20)
_SMALL_TRIES: Final = (1, 10)
_BASELINES: Final = (Method("random"), Method("greedy"), Method("dubhe"))
_CLIENTS: Final = {"full": 1000, "small": 200}
_ROUNDS: Final = {"full": 100, "small": 20}
_SEEDS: Final = {"full": (0, 1, 2), "small": (0,)}
_DATASETS: Final[tuple[str, ...]] = ("MNIST", "CIFAR10")


def _methods(options: Options) -> list[Method]:
    tries = options.tries or (_TRIES if options.is_full else _SMALL_TRIES)
    return [*_BASELINES, *(Method("dubhe-paper", number) for number in tries)]


def _selections(options: Options, generator: PartitionKind, method: Method) -> list[Cell]:
    return [
        study_cell(
            method,
            **SKEW,
            num_clients=_CLIENTS[options.scale],
            num_participants=20,
            num_rounds=_ROUNDS[options.scale],
            generator=generator,
            seed=seed,
        )
        for seed in options.seeds or _SEEDS[options.scale]
    ]


def _trainings(options: Options, dataset: str) -> dict[str, list[Cell]]:
    return trainings(f"{dataset}-10/1.5", options, tuple(_methods(options)), (0, 1, 2))


def _trained_datasets(options: Options) -> list[str]:
    wanted = [dataset for dataset in _DATASETS if dataset in options.datasets]
    return wanted if options.is_full else wanted[:1]


def _cells(options: Options) -> list[Cell]:
    selections = [
        cell
        for generator in get_args(PartitionKind)
        for method in _methods(options)
        for cell in _selections(options, generator, method)
    ]
    # Seed by seed, so that what is there after an interruption covers all methods.
    trained = [
        cell
        for dataset in _trained_datasets(options)
        for of_seed in zip(*_trainings(options, dataset).values(), strict=True)
        for cell in of_seed
    ]
    return [*selections, *trained]


def _report(options: Options, found: Found) -> Section:
    trained = _trained_datasets(options)
    tables = [_distances(options, found)]
    tables += [_accuracies(options, dataset, found) for dataset in trained]
    return Section(
        "table2",
        "Multi-time selection",
        [
            (
                f"Federations of rho = 10 and EMD_avg = 1.5, N = {_CLIENTS[options.scale]}, of "
                "which K = 20 train. EMD* is the mean of ||p_o - p_u||_1 over the rounds. After "
                "the sign ± stands the largest distance of a seed from the mean of all."
            ),
        ],
        tables,
        curves_of("table2", {f"{d}-10/1.5": _trainings(options, d) for d in trained}, found),
    )


def _distances(options: Options, found: Found) -> Table:
    rows = []
    for method in _methods(options):
        results = [
            list(finished(_selections(options, generator, method), found))
            for generator in get_args(PartitionKind)
        ]
        rows.append(
            [
                str(method),
                _paper("EMD*", method, 4),
                *(spread([result["mean_emd"] for result in of]) for of in results),
                *(spread([result["mean_local_emd"] for result in of], 2) for of in results),
                *(spread([100 * result["coverage_100"] for result in of], 0) for of in results),
            ]
        )
    kinds = get_args(PartitionKind)
    return Table(
        "EMD* of each way of selecting, the other label term of the bound, and the share of "
        f"clients selected within {_ROUNDS[options.scale]} rounds",
        (
            "method",
            "EMD* paper",
            *(f"EMD* {kind}" for kind in kinds),
            *(f"local {kind}" for kind in kinds),
            *(f"clients, % {kind}" for kind in kinds),
        ),
        rows,
    )


def _accuracies(options: Options, dataset: str, found: Found) -> Table:
    by_method = {
        name: accuracies(cells, found) for name, cells in _trainings(options, dataset).items()
    }
    rows = []
    for method in _methods(options):
        own = by_method[str(method)]
        rows.append(
            [
                str(method),
                _paper(dataset, method, 4),
                spread(own, 4),
                _share(own, by_method["random"], by_method["greedy"]),
                _share(own, by_method.get("dubhe-paper, H=1", []), by_method["greedy"]),
                _paper_share(dataset, method),
            ]
        )
    return Table(
        f"{dataset}: accuracy over the last rounds. Share of greedy's gain: 0 % is random, 100 % "
        "greedy selection. Beta, the paper's measure: 0 % is one try (H=1), 100 % greedy",
        (
            "method",
            "accuracy, paper",
            "accuracy",
            "share of greedy's gain",
            "beta",
            "beta, paper",
        ),
        rows,
    )


def _share(own: list[float], least: list[float], most: list[float]) -> str:
    if not (own and least and most) or fmean(most) == fmean(least):
        return ""
    return f"{(fmean(own) - fmean(least)) / (fmean(most) - fmean(least)):.0%}"


def _paper_key(method: Method) -> str:
    return "opt" if method.name == "greedy" else str(method.tries)


def _paper(row: str, method: Method, digits: int) -> str:
    value = TABLE_2[row].get(_paper_key(method))
    return "" if value is None else f"{value:.{digits}f}"


def _paper_share(dataset: str, method: Method) -> str:
    of = TABLE_2[dataset]
    value = of.get(_paper_key(method))
    return "" if value is None else f"{(value - of['1']) / (of['opt'] - of['1']):.1%}"


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
