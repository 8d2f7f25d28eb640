"""The overall registry and the resulting class proportions (paper, 6.3.3)."""

from functools import partial
from typing import Any, Final, get_args

from dubhe_lab.data import PartitionKind
from dubhe_lab.paper.experiment import (
    SKEW,
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
)
from dubhe_lab.paper.panels import draw_registry
from dubhe_lab.paper.studies import CLIENTS, registry_cell, study_cell
from dubhe_lab.report.panels import draw_shares
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.results import ClassProportions
from dubhe_lab.report.table import Table

_SHARES: Final[dict[int, float]] = {8: 0.0753, 9: 0.0632}
"""Section 6.3.3: shares of classes in the selected data, at 10/1.5 with N = 1000."""

_EMPTY_IN_PAPER: Final = ((9,), (8, 9), tuple(range(10)))
_METHODS: Final = (Method("dubhe-paper", 1), Method("dubhe"))
_PARTICIPANTS: Final = {"full": 20, "small": 10}
_ROUNDS: Final = {"full": 100, "small": 20}


def _grid(options: PaperSettings) -> Grid:
    rounds = _ROUNDS[options.scale]
    given: dict[str, Any] = {
        **SKEW,
        "num_clients": CLIENTS[options.scale],
        "num_participants": _PARTICIPANTS[options.scale],
        "seed": (options.seeds or (0,))[0],
    }
    return {
        kind: {
            "registry": [registry_cell(generator=kind, **given)],
            **{
                str(method): [study_cell(method, num_rounds=rounds, generator=kind, **given)]
                for method in _METHODS
            },
        }
        for kind in get_args(PartitionKind)
    }


def _report(options: PaperSettings, results: Results) -> Section:
    counted, tables, pictures = {}, [], []
    for kind, of_columns in results.items():
        of = {name: result for name, of_seed in of_columns.items() for result in of_seed.values()}
        registry = of.pop("registry")
        counts = {tuple(entry["category"]): entry["clients"] for entry in registry["categories"]}
        counted[kind] = counts
        selected = {name: result["class_proportions"] for name, result in of.items()}
        proportions = {
            name: ClassProportions(tuple(of["mean"]), tuple(of["sd"]))
            for name, of in selected.items()
        }
        everyone = registry["federation"]["class_proportions"]
        tables.append(_shares(kind, everyone, selected))
        panels = [
            partial(draw_registry, counts=counts, num_classes=10),
            partial(draw_shares, proportions=proportions, all_clients=everyone),
        ]
        caption = (
            f"{kind} clients. Above: number of clients in each category; in (0,1), classes 0 and 1 "
            "dominate. Below: class proportions of the selected data, with the standard deviation "
            "over rounds."
        )
        pictures.append(Picture(f"registry-{kind}", caption, panels, width=8.0, height=5.2))
    return Section(
        "Registry sparsity",
        [
            (
                f"The overall registry of N = {CLIENTS[options.scale]} clients with rho = 10, "
                "EMD_avg = 1.5, G = {1, 2, 10}, sigma_1 = 0.7 and sigma_2 = 0.1, and the class "
                f"proportions of {_ROUNDS[options.scale]} selections of K = "
                f"{_PARTICIPANTS[options.scale]}."
            )
        ],
        [_categories(counted), *tables],
        pictures,
    )


def _categories(counted: dict[str, dict[tuple[int, ...], int]]) -> Table:
    def name(category: tuple[int, ...]) -> str:
        pair = f"in ({', '.join(map(str, category))})"
        return "without a dominating class" if len(category) > 2 else pair

    rows = [
        [f"clients {name(category)}", "0", *(str(of[category]) for of in counted.values())]
        for category in _EMPTY_IN_PAPER
    ]
    filled = [str(sum(count > 0 for count in of.values())) for of in counted.values()]
    return Table(
        "The paper's empty categories, and the number of categories with clients",
        ("", "paper", *counted),
        [*rows, ["categories with clients, of 56", "", *filled]],
    )


def _shares(kind: str, everyone: list[float], selected: dict[str, dict[str, list[float]]]) -> Table:
    rows = [
        [
            str(label),
            f"{_SHARES[label]:.4f}" if label in _SHARES else "",
            *(f"{of['mean'][label]:.4f}" for of in selected.values()),
            f"{everyone[label]:.4f}",
        ]
        for label in range(10)
    ]
    return Table(
        f"Class proportions of the selected data, mean over rounds, {kind} clients",
        ("class", "paper", *selected, "all clients"),
        rows,
    )


EXPERIMENT: Final = Experiment(
    "Clients in each category, and the resulting class proportions.",
    _grid,
    _report,
    needs_all=True,
)
