"""Would Dubhe help in a federation? Selects among its clients, without training a model."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import cycle, islice
from statistics import fmean, median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.adapter.arguments import DubheArguments
from dubhe_flwr.adapter.signatures import taking
from dubhe_flwr.core.distribution import (
    distance_to_uniform,
    global_distribution,
    label_distribution,
)
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import DataError, SettingsError
from dubhe_flwr.protocol import Fields, NodeFailure, Plan, Stage, StageReport
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.selector import Selector
from dubhe_flwr.protocol.simulated_nodes import answer
from dubhe_lab.baselines import GreedySelector, RandomSelector
from dubhe_lab.data import load_label_counts
from dubhe_lab.data.measures import average_emd, coverage, imbalance_ratio
from dubhe_lab.experiments.registrations import (
    drawn_rounds,
    has_lasting_noise,
    registrations,
    samples,
)
from dubhe_lab.experiments.selections import rounds_in_memory, simulated_nodes
from dubhe_lab.experiments.settings import check_participants
from dubhe_lab.report.federation import Cost, FederationStudy, Reached

_ROUNDS: Final = 200
_SWEPT_ROUNDS: Final = 50  # enough to compare K, at a fraction of the time
_REGISTRATIONS: Final = 24  # enough for a mean that hardly depends on the seed
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
    """Study whether Dubhe would help a federation: its balance, its cost, and a verdict.

    Selects clients for 200 rounds, with the real protocol and without training a model. Where the
    noise of a registration lasts, Dubhe's balance is the mean over 24 registrations.

    Parameters
    ----------
    label_counts : path-like, DataFrame, array_like of int of shape (N, C), or a partitioner
        The samples of each class at each client, or what `dubhe_lab.data.load_label_counts` made of
        them.
    label, heading, client_column, label_column, classes
        How to read the table, as for `dubhe_lab.data.load_label_counts`.
    **arguments
        The arguments of `Dubhe`; only `num_participants` is required.

    Raises
    ------
    DataError
        If the table cannot be read, can be read in two ways, or has samples of one class only; the
        message says what to do.
    SettingsError
        If an argument is invalid.

    Examples
    --------
    >>> study([[40, 9, 1], [30, 9, 0], [0, 1, 9]] * 10, num_participants=5).num_clients
    30
    """
    of_table = {name: arguments.pop(name) for name in _OF_TABLES & arguments.keys()}
    table = load_label_counts(label_counts, **of_table)
    counts = table.counts
    settings = DubheArguments(**arguments)
    check_participants(settings.num_participants, len(counts))
    if len(held := np.flatnonzero(counts.sum(axis=0))) == 1:
        raise DataError(
            f"All samples are in the class {table.classes[held[0]]!r}, so there is nothing to "
            "balance; pass a table with samples of at least two classes."
        )
    if settings.rule.target is not None:
        raise SettingsError("A study measures the distance from uniform; leave out the target.")
    if settings.rule.num_classes not in {None, counts.shape[1]}:
        raise SettingsError(
            f"The rule is for {settings.rule.num_classes} classes, but label_counts has "
            f"{counts.shape[1]}; make {counts.shape[1]} the largest size of its reference_set."
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
    nodes = simulated_nodes(counts)
    rounds = {name: rounds_in_memory(selector, nodes) for name, selector in selectors.items()}
    is_noisy = has_lasting_noise(simulated, counts)
    # Where noise lasts, other registrations show Dubhe's balance; half the rounds show its cost.
    numbers = dict.fromkeys(rounds, _ROUNDS) | ({"dubhe": _ROUNDS // 2} if is_noisy else {})
    plans = {name: list(islice(own, numbers[name])) for name, own in rounds.items()}
    everybody = global_distribution(counts)
    methods = {name: _reached(_clients(own), shares, weighted) for name, own in plans.items()}
    lasting = None
    if is_noisy:
        every = _registrations(simulated, counts, weighted, _REGISTRATIONS, _ROUNDS)
        methods["dubhe"] = _mean(every)
        low, high = np.percentile([own.lasting for own in every], [5, 95])
        lasting = float(low), float(high)
    return FederationStudy(
        read=table.summary,
        extremes=table.extremes,
        num_clients=len(counts),
        num_classes=len(everybody),
        sizes=tuple(np.percentile(counts.sum(axis=1), [0, 50, 100]).astype(int).tolist()),
        rho=imbalance_ratio(everybody),
        emd=average_emd(shares, everybody),
        global_emd=distance_to_uniform(everybody),
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
            **_swept(nodes, counts, weighted, simulated),
        },
        lasting_range=lasting,
    )


def _swept(
    nodes: Sequence[NodePolicy],
    counts: NDArray[np.int64],
    weighted: NDArray[Any],
    settings: DubheArguments,
) -> dict[int, dict[str, Reached]]:
    """Return the results for other numbers of participants, up to half of the clients."""
    swept = {}
    shares = label_distribution(counts)
    for halves in (1, 3, 4):
        wanted = halves * settings.num_participants // 2
        if 2 * wanted > len(nodes):
            continue
        try:
            own = replace(settings, num_participants=wanted)
        except SettingsError:  # such as fewer participants than min_cohort
            continue
        random = rounds_in_memory(RandomSelector(wanted, settings.seed or 0), nodes)
        if has_lasting_noise(own, counts):
            numbers = _REGISTRATIONS, _SWEPT_ROUNDS
            dubhe = _mean(_registrations(own, counts, weighted, *numbers))
        else:
            plans = islice(rounds_in_memory(Coordinator(own), nodes), _SWEPT_ROUNDS)
            dubhe = _reached(_clients(plans), shares, weighted)
        swept[wanted] = {
            "random": _reached(_clients(islice(random, _ROUNDS)), shares, weighted),
            "dubhe": dubhe,
        }
    return swept


def _registrations(
    settings: DubheArguments,
    counts: NDArray[np.int64],
    weighted: NDArray[Any],
    number: int,
    num_rounds: int,
) -> list[Reached]:
    """Return the balance after each of many registrations, whose noise differs."""
    shares = label_distribution(counts)
    path = settings.seed or 0, "registrations", settings.num_participants
    rng, everyone = generator(*path), np.arange(len(counts))
    if len(counts) > settings.max_registered:
        found, lasts = samples(settings, counts, rng), max(50, settings.registration_interval)
    else:
        found = ((everyone, own) for own in registrations(settings, counts, rng))
        lasts = num_rounds
    every = list(islice(found, number))

    def rounds(first: int) -> Iterator[list[int]]:
        """Yield the rounds of these registrations, one after the other."""
        rng = generator(*path, first)
        for rows, settled in cycle([*every[first:], *every[:first]]):
            for own in islice(drawn_rounds(settings, settled, rng), lasts):
                yield rows[own].tolist()

    return [
        _reached(list(islice(rounds(first), num_rounds)), shares, weighted)
        for first in range(number)
    ]


def _mean(every: Sequence[Reached]) -> Reached:
    names = [own.name for own in fields(Reached)]
    return Reached(**{name: fmean(getattr(own, name) for own in every) for name in names})


def _clients(plans: Iterable[Plan]) -> list[list[int]]:
    return [list(plan.participants) for plan in plans]


def _reached(
    rounds: Sequence[Sequence[int]], shares: NDArray[np.float64], weighted: NDArray[Any]
) -> Reached:
    totals = np.array([weighted[own].sum(axis=0) for own in rounds])
    unions = totals / totals.sum(axis=1, keepdims=True)
    in_tens = unions.reshape(-1, 10, unions.shape[1]).mean(axis=1)
    uniform = np.full(unions.shape[1], 1.0 / unions.shape[1])
    pairs = zip(rounds, unions, strict=True)
    return Reached(
        distance=average_emd(unions, uniform),
        lasting=average_emd(in_tens, uniform),
        local_skew=fmean(average_emd(shares[own], union) for own, union in pairs),
        coverage=coverage(rounds, len(shares)),
    )


def _costs(
    plans: Sequence[Plan], counts: NDArray[np.int64], settings: DubheArguments
) -> dict[str, Cost]:
    """Return the cost of a round with a registration, and of one without."""
    some = simulated_nodes(counts[: max(_TIMED, settings.num_participants)])
    # These few nodes are not the whole federation, so its quorum does not apply.
    encrypted = Coordinator(replace(settings, simulation="encrypted", quorum=None))
    seconds: dict[ClientSession, float] = defaultdict(float)

    def timed_answer(session: ClientSession, request: Fields) -> Fields | NodeFailure:
        began = time.perf_counter()
        reply = answer(session, request)
        seconds[session] += time.perf_counter() - began
        return reply

    timed = rounds_in_memory(encrypted, some, answer=timed_answer)
    # One draw serves several rounds, so the rounds without a registration are a mean.
    between = max(1, min(settings.rounds_per_draw, settings.registration_interval - 1))
    costs = {}
    for name, registers, number in (
        ("with a registration", True, 1),
        ("without one", False, between),
    ):
        own = [plan for plan in plans if registers == (Stage.REGISTER in _reports(plan))]
        if not own:
            continue
        seconds.clear()
        measured = list(islice(timed, number))
        times = fmean(plan.num_registered for plan in own) / measured[0].num_registered
        costs[name] = Cost(
            exchanges=fmean(len(plan.stages) + len(_of_vault(plan, measured[0])) for plan in own),
            messages=fmean(
                sum(report.sent for report in (*plan.stages, *_of_vault(plan, measured[0])))
                for plan in own
            ),
            bytes_up=times * fmean(plan.bytes_up for plan in measured),
            bytes_down=times * fmean(plan.bytes_down for plan in measured),
            # A busy machine delays single answers, and members of the committee do more.
            node_seconds=median(seconds.values() or [0.0]) / number,
        )
    return costs


def _of_vault(plain: Plan, encrypted: Plan) -> list[StageReport]:
    """Return the exchanges that only an encrypted round has, which make keys and open sums."""
    reports = _reports(encrypted)
    num_sums = sum(report.stage == Stage.SETTLE for report in plain.stages)
    numbers = {Stage.APPOINT: 1, Stage.OPEN: num_sums}
    return [
        reports[stage]
        for stage, number in numbers.items()
        if stage in reports
        for _ in range(number)
    ]


def _reports(plan: Plan) -> dict[str, StageReport]:
    return {report.stage: report for report in plan.stages}
