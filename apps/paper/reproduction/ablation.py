"""Every option of Dubhe alone and together: what each does to balance, spread and accuracy."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_flwr.data.named import NamedFederation
from dubhe_flwr.experiments.methods import METHODS
from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.section import Picture, Section, Table
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
from reproduction.selecting import study_cell
from reproduction.training import training_cell

__all__ = ["EXPERIMENT"]

_OPTIONS: Final = tuple(map(Method, METHODS))
_CLIENTS: Final = {"full": 1000, "small": 200}
_ROUNDS: Final = {"full": 200, "small": 20}
_SEEDS: Final = {"full": (0, 1, 2), "small": (0,)}
_PARTICIPANTS: Final = {"full": (10, 20, 50, 100, 200, 500, 1000), "small": (10, 50)}
_RHOS: Final = {"full": (2.0, 5.0, 10.0), "small": (10.0,)}
_EMDS: Final = {"full": (0.5, 1.0, 1.5), "small": (0.5, 1.5)}
_LETTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "full": {"num_clients": 8962, "num_rounds": 50},
    "small": {"num_clients": 400, "num_rounds": 5},
}
_LETTER_SKEW: Final[Mapping[str, Any]] = {
    "rho": 13.64,
    "emd": 0.554,
    "num_samples": 32,
    "reference_set": (1, 52),
}
_LETTER_THRESHOLDS: Final[Mapping[str, Any]] = {"thresholds": (0.06,)}
_TRAINING_ROUNDS: Final = {"full": 120, "small": 12}
_LAST: Final = 5


def _selection(options: Options, method: Method) -> list[Cell]:
    """Return the cells of the main table, one for each seed."""
    scale = options.scale
    return [
        study_cell(
            method, **SKEW, num_clients=_CLIENTS[scale], num_rounds=_ROUNDS[scale], seed=seed
        )
        for seed in options.seeds or _SEEDS[scale]
    ]


def _varied(options: Options, method: Method, **given: Any) -> Cell:
    """Return the cell of another number of participants or another federation."""
    scale = options.scale
    fixed = {"num_clients": _CLIENTS[scale], "num_rounds": _ROUNDS[scale] // 2, "seed": 0}
    return study_cell(method, **{**SKEW, **fixed, **given})


def _letters(options: Options, method: Method) -> Cell:
    own = method.settings
    thresholds = {} if "thresholds" in own else _LETTER_THRESHOLDS
    return study_cell(method, **_LETTER_SKEW, **_LETTERS[options.scale], **thresholds, seed=0)


def _trainings(options: Options, method: Method) -> list[Cell]:
    if "MNIST" not in options.datasets:
        return []
    federation = NamedFederation.parse("MNIST-10/1.5")
    rounds = options.num_rounds or _TRAINING_ROUNDS[options.scale]
    seeds = options.seeds or (0,)
    return [training_cell(federation, method, seed, options, num_rounds=rounds) for seed in seeds]


def _skews(options: Options) -> list[dict[str, float]]:
    scale = options.scale
    return [{"rho": rho, "emd": emd} for rho in _RHOS[scale] for emd in _EMDS[scale]]


def _cells(options: Options) -> list[Cell]:
    cells: list[Cell] = []
    for method in _OPTIONS:
        cells += _selection(options, method)
        cells += [
            _varied(options, method, num_participants=number)
            for number in _PARTICIPANTS[options.scale]
        ]
        cells += [_varied(options, method, **skew) for skew in _skews(options)]
        cells.append(_letters(options, method))
    for method in _OPTIONS:
        cells += _trainings(options, method)
    # K = 20 in the usual federation is part of two tables.
    return list({cell.key: cell for cell in cells}.values())


def _report(options: Options, found: Found) -> Section:
    scale = options.scale
    participants, skews = _PARTICIPANTS[scale], _skews(options)
    columns = (
        *("selection", "EMD*", "bias", "local EMD"),
        f"coverage in {_reached_in(options)}",
        "effective clients",
    )
    tables = [
        Table(
            f"K = 20, {_ROUNDS[scale]} rounds, mean and spread over seeds",
            (*columns, "accuracy, last 5"),
            [
                [
                    str(method),
                    *_figures(list(finished(_selection(options, method), found))),
                    spread(_accuracies(options, method, found)),
                ]
                for method in _OPTIONS
            ],
        ),
        Table(
            "Mean EMD* by the number of participants K",
            ("selection", *map(str, participants)),
            [
                [
                    str(method),
                    *(
                        _mean_emd(_varied(options, method, num_participants=number), found)
                        for number in participants
                    ),
                ]
                for method in _OPTIONS
            ],
        ),
        Table(
            "Mean EMD* by the skew of the federation, rho/EMD_avg",
            ("selection", *(f"{skew['rho']:g}/{skew['emd']:g}" for skew in skews)),
            [
                [
                    str(method),
                    *(_mean_emd(_varied(options, method, **skew), found) for skew in skews),
                ]
                for method in _OPTIONS
            ],
        ),
        Table(
            f"Like FEMNIST: 52 classes, N = {_LETTERS[scale]['num_clients']}, G = {{1, 52}}",
            columns,
            [
                [str(method), *_figures(list(finished([_letters(options, method)], found)))]
                for method in _OPTIONS
            ],
        ),
    ]
    return Section(
        "ablation",
        "Every option, alone and together",
        [
            (
                f"N = {_CLIENTS[scale]}, rho = 10, EMD_avg = 1.5, K = 20 and H = 20 where nothing "
                "else is said. EMD* is the mean distance of the selected data from uniform, bias "
                "the distance of its mean; local EMD is the other label term of the bound."
            )
        ],
        tables,
        _pictures(options, found),
    )


def _pictures(options: Options, found: Found) -> list[Picture]:
    from reproduction.panels import draw_balance  # noqa: PLC0415 - an extra

    results = {
        str(method): list(finished(_selection(options, method), found)) for method in _OPTIONS
    }
    points = {
        name: (fmean(r["coverage_100"] for r in of), fmean(r["mean_emd"] for r in of))
        for name, of in results.items()
        if of
    }
    if not points:
        return []
    caption = "Each option between balance (down) and spread over the clients (right), K = 20."
    panel = partial(
        draw_balance, points=points, num_rounds=_reached_in(options), title="Balance and spread"
    )
    return [Picture("ablation", caption, picture([[panel]], (9, 5.4)))]


def _reached_in(options: Options) -> int:
    """Return the rounds within which it is counted how many clients were reached."""
    return min(100, _ROUNDS[options.scale])


def _figures(results: list[dict[str, Any]]) -> list[str]:
    def of(name: str, digits: int = 3) -> str:
        return spread([result[name] for result in results], digits)

    return [
        of("mean_emd"),
        of("bias"),
        of("mean_local_emd", 2),
        of("coverage_100", 2),
        of("effective_clients", 0),
    ]


def _mean_emd(cell: Cell, found: Found) -> str:
    return spread([result["mean_emd"] for result in finished([cell], found)])


def _accuracies(options: Options, method: Method, found: Found) -> list[float]:
    return [
        fmean(result["methods"][method.kind]["accuracy"][-_LAST:])
        for result in finished(_trainings(options, method), found)
    ]


EXPERIMENT: Final = Experiment(_cells, _report, needs_all=False)
