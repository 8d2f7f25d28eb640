"""Cells that only select: the selected data, and the clients in each category."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import chain, combinations
from typing import Any, Final

from dubhe_flwr.core.distribution import distance_to_uniform
from dubhe_flwr.rules import Paper
from dubhe_lab.data.measures import overall_registry
from dubhe_lab.experiments.findings import federation_summary
from dubhe_lab.experiments.selections import select
from dubhe_lab.experiments.settings import DUBHE, MachineSettings, StudySettings
from dubhe_lab.paper.cells import Advance, Cell, Measured
from dubhe_lab.paper.experiment import SKEW, Method, PaperSettings, columns, deciding, identity

CLIENTS: Final = {"full": 1000, "small": 200}
"""``N`` by scale."""

LETTERS: Final[Mapping[str, Any]] = {
    "rho": 13.64,
    "emd": 0.554,
    "num_clients": 8962,
    "num_samples": 32,
    "reference_set": (1, 52),
    "thresholds": (0.06,),
}
"""Settings of a drawn federation that resembles FEMNIST."""


def study_cell(method: Method, **given: Any) -> Cell:
    """Return the cell of a method's selections; keywords are fields of `StudySettings`.

    Examples
    --------
    >>> study_cell(Method("greedy"), num_participants=10).name
    '10/1.5, dirichlet, N=1000, K=10, greedy, seed 0'
    """
    settings = StudySettings.of(**{**given, **method.settings})
    federation, wanted = settings.federation, settings.selection.num_participants
    return Cell(
        "study",
        f"{_skew(settings)}, N={federation.num_clients}, K={wanted}, {method}, "
        f"seed {federation.seed}",
        identity(settings, method),
        partial(_measure_study, settings, method.kind),
    )


def registry_cell(**given: Any) -> Cell:
    """Return the cell of a federation's overall registry.

    Examples
    --------
    >>> registry_cell(rho=5).name
    'registry of 5/1.5, dirichlet, N=1000, seed 0'
    """
    settings = StudySettings.of(**{**given, **DUBHE["dubhe-paper"]})
    federation = settings.federation
    return Cell(
        "registry",
        f"registry of {_skew(settings)}, N={federation.num_clients}, seed {federation.seed}",
        deciding(settings),
        partial(_measure_registry, settings),
    )


def studies(
    options: PaperSettings,
    methods: tuple[Method, ...],
    seeds: tuple[int, ...] = (0,),
    **given: Any,
) -> dict[str, list[Cell]]:
    """Return the cells of all methods at rho = 10 and EMD_avg = 1.5; `seeds` as in `trainings`."""
    own = {**SKEW, "num_clients": CLIENTS[options.scale], **given}
    return columns(
        methods, options.seeds_or(seeds), lambda method, seed: study_cell(method, seed=seed, **own)
    )


def _skew(settings: StudySettings) -> str:
    federation = settings.federation
    return f"{federation.rho:g}/{federation.emd}, {federation.generator}"


def _measure_study(
    settings: StudySettings, kind: str, _machine: MachineSettings, advance: Advance
) -> Measured:
    """Run the selections of a cell."""
    federation = settings.federation.draw("synthetic", settings.classes)
    found = select(kind, settings, federation, lambda: advance(1 / settings.num_rounds))
    return Measured(
        {
            "federation": asdict(federation_summary(federation)),
            "global_emd": distance_to_uniform(federation.global_distribution),
            **found.to_dict(),
        }
    )


def _measure_registry(
    settings: StudySettings, _machine: MachineSettings, _advance: Advance
) -> Measured:
    """Count the clients in each category."""
    federation = settings.federation.draw("synthetic", settings.classes)
    rule = settings.protocol_settings().rule
    assert isinstance(rule, Paper)  # noqa: S101 - as `registry_cell` sets it
    (thresholds, *_) = rule.candidates
    overall, _ = overall_registry(federation.label_counts, rule.codebook, thresholds)
    classes = range(rule.codebook.num_classes)
    categories = chain.from_iterable(combinations(classes, i) for i in rule.codebook.reference_set)
    counts = [
        {"category": list(category), "clients": int(count)}
        for category, count in zip(categories, overall, strict=True)
    ]
    return Measured({"federation": asdict(federation_summary(federation)), "categories": counts})
