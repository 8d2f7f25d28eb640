"""Measures what attackers find in noisy sums: `python docs/noise/attacks.py`.

Writes `attacks.json`, with the table on the page about noise. This takes some ten
minutes; measured cells are kept, so the command continues where it stopped.
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from adversary.test_price_sums import (
    all_but,
    colluding,
    colluding_part,
    comes_and_goes,
    joint,
    lost,
    many_budgets,
    sole_holder,
    sole_holder_among_known,
)

from dubhe_flwr.rules import Prices

MEASURED: Final = Path(__file__).with_suffix(".json")
SEEDS: Final = {20: 16, 50: 12, 100: 9, 500: 5, 2000: 4}
"""Number of federations for each N."""

Attack = Callable[[int, int, float], float]
"""Returns the error of a guess, given N, a seed and the noise."""


def all_nodes_but_one(number: int, seed: int, noise: float) -> float:
    """Return the error of an attack by all nodes but the victim."""
    return colluding(number - 1, number, seed, noise)


ROWS: Final[Mapping[str, tuple[int, Attack]]] = {
    "only holder of a class, one period": (2000, partial(sole_holder, period=True)),
    "only holder, whole budget": (2000, sole_holder),
    "only holder, all other clients known": (2000, sole_holder_among_known),
    "dropped out between two sums": (2000, lost),
    "connected in every second period": (2000, comes_and_goes),
    "all clients jointly": (2000, joint),
    "all other clients known, one period": (2000, partial(all_but, 1, period=True)),
    "all other clients known, whole budget": (2000, partial(all_but, 1)),
    "all but two known": (100, partial(all_but, 2)),
    "all but five known": (100, partial(all_but, 5)),
    "a tenth of the nodes collude": (500, partial(colluding_part, 10)),
    "half of the nodes collude": (500, partial(colluding_part, 2)),
    "all nodes but one collude": (100, all_nodes_but_one),
    "all other clients known, labels changed three times: four budgets": (20, many_budgets),
}
"""Each row's largest N and attack."""


def main() -> None:
    """Measure the cells that the file lacks."""
    errors = json.loads(MEASURED.read_text())["errors"] if MEASURED.exists() else {}
    for name, (largest, attack) in ROWS.items():
        row = errors.setdefault(name, {})
        for number, seeds in SEEDS.items():
            if number > largest or str(number) in row:
                continue
            found = [attack(number, seed, Prices.noise) for seed in range(seeds)]
            row[str(number)] = [round(each, 4) for each in found]
            write(errors)


def write(errors: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Write the table and the errors behind it."""
    told = {"table": table(errors), "errors": errors}
    MEASURED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def table(errors: Mapping[str, Mapping[str, list[float]]]) -> list[list[str]]:
    """Return the heading and the rows: the median error of each cell, and the smallest."""
    rows = [["", *(f"N = {number}" if number == 20 else str(number) for number in SEEDS)]]
    for name in ROWS:
        cells = [errors.get(name, {}).get(str(number)) for number in SEEDS]
        rows.append(
            [name, *("-" if c is None else f"{np.median(c):.2f} ({min(c):.2f})" for c in cells)]
        )
    return rows


if __name__ == "__main__":
    main()
