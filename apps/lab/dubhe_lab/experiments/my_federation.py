"""Would Dubhe help in a federation of one's own? Selection among its clients, without a model."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.adapter import DubheArguments
from dubhe_flwr.adapter.arguments import taking
from dubhe_flwr.core.distribution import (
    average_emd,
    coverage,
    distance_to_uniform,
    global_distribution,
    imbalance_ratio,
    label_distribution,
)
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Coordinator, NodePolicy, Plan, Selector, Stage, StageReport
from dubhe_lab.baselines import GreedySelector, RandomSelector
from dubhe_lab.data import load_label_counts
from dubhe_lab.experiments.study import rounds_in_memory, simulated_nodes
from dubhe_lab.report.federation import Cost, FederationStudy, Reached

_ROUNDS: Final = 200
_SWEPT_ROUNDS: Final = 50  # enough for a comparison, in a tenth of the time
_TIMED: Final = 20


@dataclass(frozen=True, kw_only=True)
class _Arguments(DubheArguments):
    """The arguments of `study`: how to read the table, and how Dubhe selects."""

    label: str = "label"
    heading: bool = True
    client_column: str | None = None
    label_column: str | None = None
    classes: str | None = None


_OF_TABLES: Final = {own.name for own in fields(_Arguments)} - {
    own.name for own in fields(DubheArguments)
}


@taking(_Arguments)
def study(label_counts: Any, **arguments: Any) -> FederationStudy:
    """Return whether Dubhe would help a federation: what it reaches, what it costs, and a verdict.

    Clients are selected for 200 rounds, by the protocol as it is and without a model.

    Parameters
    ----------
    label_counts : path-like, DataFrame, array_like of int of shape (N, C), or a partitioner
        The samples of each class at each client; see `dubhe_lab.data.load_label_counts`.
    label, heading, client_column, label_column, classes
        How to read the table, as for `dubhe_lab.data.load_label_counts`.
    **arguments
        Those of `Dubhe`, first of all `num_participants`.

    Raises
    ------
    DataError
        If the table cannot be read or could mean something else; the message names the remedy.
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> study([[40, 9, 1], [30, 9, 0], [0, 1, 9]] * 10, num_participants=5).num_clients
    30
    """
    of_table = {name: arguments.pop(name) for name in _OF_TABLES & arguments.keys()}
    table = load_label_counts(label_counts, **of_table)
    counts = table.counts
    settings = DubheArguments(**arguments)
    settings.check_federation(len(counts))
    if settings.rule.target is not None:
        raise SettingsError("A study compares with uniform; leave target out of the rule.")
    if settings.rule.num_classes not in {None, counts.shape[1]}:
        raise SettingsError(
            f"The rule is for {settings.rule.num_classes} classes, and label_counts has "
            f"{counts.shape[1]}; make the rule fit, as the largest size of its reference_set."
        )
    simulated = replace(
        settings,
        seed=settings.seed or 0,
        simulation="plain",
        trusted_keys=None,
    )
    shares = label_distribution(counts)
    weighted = shares if settings.equal_weights else counts
    selectors: dict[str, Selector[Any]] = {
        "random": RandomSelector(simulated.num_participants, simulated.seed),
        "dubhe": Coordinator(simulated),
        "greedy": GreedySelector(simulated.num_participants, weighted, simulated.seed),
    }
    nodes = simulated_nodes(counts, settings.key_bits)
    rounds = {name: rounds_in_memory(selector, nodes) for name, selector in selectors.items()}
    plans = {name: list(islice(own, _ROUNDS)) for name, own in rounds.items()}
    everybody = global_distribution(counts)
    methods = {name: _reached(own, shares, weighted) for name, own in plans.items()}
    return FederationStudy(
        read=table.summary,
        num_clients=len(counts),
        num_classes=len(everybody),
        sizes=tuple(np.percentile(counts.sum(axis=1), [0, 50, 100]).astype(int).tolist()),
        rho=imbalance_ratio(everybody),
        emd=average_emd(shares, everybody),
        methods=methods,
        costs=_costs(plans["dubhe"], counts, simulated),
        arguments=settings,
        privacy=max(
            (plan.privacy for plan in plans["dubhe"] if plan.privacy is not None),
            key=lambda bound: bound.epoch,
            default=None,
        ),
        sweep={
            settings.num_participants: {name: methods[name] for name in ("random", "dubhe")},
            **_swept(nodes, shares, weighted, simulated),
        },
    )


def _swept(
    nodes: Sequence[NodePolicy],
    shares: NDArray[np.float64],
    weighted: NDArray[Any],
    settings: DubheArguments,
) -> dict[int, dict[str, Reached]]:
    """Return what other numbers of participants reach, up to half of the clients."""
    swept = {}
    for halves in (1, 3, 4):
        wanted = halves * settings.num_participants // 2
        if 2 * wanted > len(nodes):
            continue
        try:
            own = replace(settings, num_participants=wanted)
        except SettingsError:  # such as fewer clients than in a group
            continue
        rounds: dict[str, tuple[Selector[Any], int]] = {
            "random": (RandomSelector(wanted, settings.seed or 0), _ROUNDS),
            "dubhe": (Coordinator(own), _SWEPT_ROUNDS),
        }
        swept[wanted] = {
            name: _reached(
                list(islice(rounds_in_memory(selector, nodes), number)), shares, weighted
            )
            for name, (selector, number) in rounds.items()
        }
    return swept


def _reached(plans: Sequence[Plan], shares: NDArray[np.float64], weighted: NDArray[Any]) -> Reached:
    rounds = [list(plan.participants) for plan in plans]
    unions = np.array([global_distribution(weighted[own]) for own in rounds])
    in_tens = unions.reshape(-1, 10, unions.shape[1])
    return Reached(
        distance=fmean(map(distance_to_uniform, unions)),
        lasting=fmean(map(distance_to_uniform, in_tens.mean(axis=1))),
        local_skew=fmean(map(average_emd, (shares[own] for own in rounds), unions)),
        coverage=coverage(rounds, len(shares)),
    )


def _costs(
    plans: Sequence[Plan], counts: NDArray[np.int64], settings: DubheArguments
) -> dict[str, Cost]:
    """Return what a round costs that registers, and one that does not."""
    some = simulated_nodes(counts[: max(_TIMED, settings.num_participants)], settings.key_bits)
    encrypted = Coordinator(replace(settings, simulation="encrypted"))
    timed = rounds_in_memory(encrypted, some)
    costs = {}
    for name, registers in (("with a registration", True), ("without one", False)):
        own = [plan for plan in plans if registers == (Stage.REGISTER in _reports(plan))]
        if not own:
            continue
        began = time.perf_counter()
        measured = next(timed)
        seconds = time.perf_counter() - began
        cost = Cost(
            exchanges=fmean(len(plan.stages) for plan in own),
            messages=fmean(sum(report.sent for report in plan.stages) for plan in own),
            bytes_up=fmean(plan.bytes_up for plan in own),
            bytes_down=fmean(plan.bytes_down for plan in own),
            node_seconds=seconds / len(some),
        )
        costs[name] = _with_keys(cost, own, measured) if registers else cost
    return costs


def _reports(plan: Plan) -> dict[str, StageReport]:
    return {report.stage: report for report in plan.stages}


def _with_keys(cost: Cost, plans: Sequence[Plan], measured: Plan) -> Cost:
    """Add the exchange of keys, which plain rounds lack: each node's part is as in `measured`."""
    of_keys, register = (_reports(measured)[stage] for stage in (Stage.KEYGEN, Stage.REGISTER))
    plain = fmean(_reports(plan)[Stage.REGISTER].bytes_down for plan in plans)
    times = fmean(plan.num_registered for plan in plans) / measured.num_registered
    return replace(
        cost,
        exchanges=cost.exchanges + 1,
        messages=cost.messages + 1,
        bytes_up=cost.bytes_up + times * of_keys.bytes_up,
        bytes_down=cost.bytes_down + times * (of_keys.bytes_down + register.bytes_down) - plain,
    )
