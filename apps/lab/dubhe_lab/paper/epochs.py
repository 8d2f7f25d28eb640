"""Beyond the paper: epochs that start from the last prices, and nodes that keep probabilities."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import distance_to_uniform, label_distribution
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.node.memory import LabelBudget
from dubhe_flwr.protocol.wire.messages import COMMITTEE_SIZE
from dubhe_flwr.rules import Frame, Own, Population, Prices
from dubhe_lab.data.federation import half_normal_proportions
from dubhe_lab.data.partition import client_distributions
from dubhe_lab.experiments.registrations import settled
from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import Experiment, Grid, PaperSettings, Results, Section
from dubhe_lab.report.table import Table

_Federation: TypeAlias = tuple[int, int, float]
"""N, K and EMD_avg."""

_KIND: Final = "epochs"
_SEEDS: Final = (0, 1, 2, 3)
_CLASSES: Final = 10
_FEDERATIONS: Final[Mapping[str, tuple[_Federation, ...]]] = {
    "full": ((1000, 100, 1.5), (1000, 100, 0.5), (1000, 20, 1.5), (150, 20, 1.0), (50, 20, 1.0)),
    "small": ((50, 20, 1.0),),
}
_EPOCHS: Final = {"full": 10, "small": 2}
_COLUMNS: Final = (
    "clients, ten classes",
    "sums for a\nregistration",
    "volunteers' distance\nfrom uniform",
    "if all took the\nlatest prices",
    "nodes that spent\ntheir budget",
)


def _cell(federation: _Federation, num_epochs: int, seed: int) -> Cell:
    number, participants, emd = federation
    config = {
        "num_clients": number,
        "num_participants": participants,
        "emd": emd,
        "num_epochs": num_epochs,
        "seed": seed,
    }
    measured = partial(_measure, federation, num_epochs, seed)
    name = f"N={number}, K={participants}, EMD {emd}, seed {seed}"
    return Cell(_KIND, name, config, measured)


def _measure(
    federation: _Federation, num_epochs: int, seed: int, _: MachineSettings, advance: Advance
) -> Measured:
    """Return means over all epochs after the first; one client in twenty is new in each."""
    (number, participants, emd), rng, rule = federation, generator(seed, _KIND), Prices()
    proportions = half_normal_proportions(_CLASSES, 10.0)
    counts = client_distributions(2 * number, proportions, emd, rng)
    frame = Frame(_CLASSES, number)
    first = Population(frame, number, participants, number, COMMITTEE_SIZE)
    later = replace(first, frame=replace(frame, continues=True))
    owns = [Own(row, rng=rng) for row in counts]
    openings = np.array([rule.contribution(own, first) for own in owns])
    of_first, cost = (1.0 / (rule.sum_budget(each) or 1) for each in (first, later))
    budgets, present, found = [LabelBudget()] * len(owns), np.arange(number), []
    state: tuple[float, ...] = ()
    for epoch in range(num_epochs + 1):
        left = rng.choice(number, number // 20 if epoch else 0, replace=False)
        present[left] = number + (epoch - 1) * left.size + np.arange(left.size)
        here = [replace(owns[i], is_silent=budgets[i].is_spent(cost)) for i in present]
        registered = openings[present].sum(axis=0)
        afresh = settled(rule, [owns[i] for i in present], first, registered, rng)
        num_sums, outcomes = afresh
        if epoch:
            registered = np.sum([rule.continued(own, later, state) for own in here], axis=0)
            num_sums, outcomes = settled(rule, here, later, registered, rng, state=state)
        state = outcomes[0].state
        for i, outcome in zip(present, outcomes, strict=True):
            budget = budgets[i].charged(num_sums * (cost if epoch else of_first))
            budgets[i] = budget if budget.keeps_probability else budget.drawn(outcome.probability)
        distance = partial(_distance, label_distribution(counts[present]))
        measured = {
            "sums": num_sums,
            "sums_afresh": afresh[0],
            "distance": distance(budgets[i].probability for i in present),
            "distance_afresh": distance(each.probability for each in afresh[1]),
            "distance_latest": distance(each.probability for each in outcomes),
            "spent": fmean(budgets[i].is_spent(cost) for i in present),
        }
        found += [measured] if epoch else []
        advance(1.0 / (num_epochs + 1))
    return Measured({name: fmean(each[name] for each in found) for name in found[0]})


def _distance(shares: NDArray[np.float64], probabilities: Iterable[float]) -> float:
    """Return the distance from uniform of what volunteers hold on average."""
    weights = np.array(list(probabilities))
    return distance_to_uniform(weights @ shares / weights.sum())


def _grid(options: PaperSettings) -> Grid:
    seeds, num_epochs = options.seeds_or(_SEEDS), _EPOCHS[options.scale]
    return {
        federation: {"prices": [_cell(federation, num_epochs, seed) for seed in seeds]}
        for federation in _FEDERATIONS[options.scale]
    }


def _report(options: PaperSettings, results: Results) -> Section:
    about = (
        f"Means over {_EPOCHS[options.scale]} registrations that start from the last prices, each "
        "with 5 % new clients and a committee's noise; in brackets, the same clients without the "
        "last prices and with full budgets."
    )
    rows = [_row(federation, of["prices"].values()) for federation, of in results.items()]
    return Section("Later registrations", [about], [Table("Later registrations", _COLUMNS, rows)])


def _row(federation: _Federation, of_seeds: Iterable[Mapping[str, Any]]) -> list[str]:
    cells = list(of_seeds)
    means = {name: fmean(cell[name] for cell in cells) for name in cells[0]}
    number, participants, emd = federation
    return [
        f"{number}, K = {participants}, EMD {emd}",
        f"{means['sums']:.1f} ({means['sums_afresh']:.1f})",
        f"{means['distance']:.2f} ({means['distance_afresh']:.2f})",
        f"{means['distance_latest']:.2f}",
        f"{means['spent']:.0%}",
    ]


EXPERIMENT: Final = Experiment(
    "Beyond the paper: sums and balance of registrations that start from the last prices.",
    _grid,
    _report,
    needs_all=True,
)
