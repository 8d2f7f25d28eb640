"""Made-up results of cells, for tests that only read results."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import combinations
from typing import Any

from comparison_results import RESULTS, method_result

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings, Section
from dubhe_lab.report.table import Table

DISTANCES = {
    "random": 0.6, "dubhe": 0.3, "greedy": 0.05, "flips": 0.2, "fedcbs": 0.06, "fedentopt": 0.25,
}  # fmt: skip
FEDERATION = asdict(RESULTS.federation)

CATEGORIES = [u for size in (1, 2, 10) for u in combinations(range(10), size)]


def section(name: str, options: PaperSettings, cells: Iterable[Cell] | None = None) -> Section:
    """Return what an experiment reports on the results of these cells, by default of all."""
    experiment = EXPERIMENTS[name]
    wanted = experiment.cells(options) if cells is None else cells
    made = experiment.section(options, {cell.key: _result(cell) for cell in wanted})
    assert made is not None
    return made


def rows(table: Table) -> dict[str, list[str]]:
    """Return the cells of each row of a table by the row's heading."""
    return {row[0]: list(row[1:]) for row in table.rows}


def _result(cell: Cell) -> dict[str, Any]:
    of_kind: dict[str, Any] = {
        "study": _study,
        "registry": lambda _cell: {
            "federation": FEDERATION,
            "categories": [
                {"category": list(category), "clients": slot}
                for slot, category in enumerate(CATEGORIES)
            ],
        },
        "encryption": lambda _cell: {
            name: {
                "packed": {"bytes": 512, "encrypt_seconds": 0.002, "decrypt_seconds": 0.0021},
                "by_element": {"bytes": 28672, "encrypt_seconds": 0.5, "decrypt_seconds": 0.1},
            }
            for name in (
                "registry of 56",
                "registry of 53",
                *map("p_l of {} classes".format, (10, 52)),
            )
        },
        "verdict": lambda of: {
            "emd": 1.0,
            "lasting": {"random": 0.6, "dubhe": 0.1 * (of.config["seed"] % 5)},
            "distance": {"random": 0.7, "dubhe": 0.3},
            "accuracy": {"random": 0.8, "dubhe": 0.9},
        },
        "epochs": lambda _cell: {
            "sums": 1.1,
            "sums_afresh": 3.0,
            "distance": 0.15,
            "distance_afresh": 0.13,
            "distance_latest": 0.09,
            "spent": 0.2,
        },
        "training": _training,
        "natural": lambda _cell: {"helps": "much", "rho": 2.0, "emd": 0.6},
    }
    result: dict[str, Any] = of_kind[cell.kind](cell)
    return result


def _training(cell: Cell) -> dict[str, Any]:
    told = method_result(cell.config["method"]).to_dict()
    series = dict.fromkeys(("balanced_accuracy", "worst_recall"), told["accuracy"])
    return {"federation": FEDERATION, "methods": {cell.config["method"]: told | series}}


def _study(cell: Cell) -> dict[str, Any]:
    distance = DISTANCES[cell.config["method"]]
    shares = [0.19, 0.17, 0.15, 0.13, 0.1, 0.08, 0.07, 0.05, 0.04, 0.02]
    return {
        "federation": FEDERATION,
        "global_emd": 0.517,
        "mean_emd": distance,
        "sd_emd": 0.1,
        "bias": 0.05,
        "effective_clients": 312.0,
        "mean_local_emd": 1.4,
        "coverage_100": 0.5,
        "class_proportions": {"mean": shares, "sd": [0.01] * 10},
        "emd": [distance] * 4,
        "seconds": 2.0,
    }
