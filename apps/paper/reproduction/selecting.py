"""Cells without training: who would be selected, and how the clients are registered."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dubhe_flwr.core import Codebook, distance_to_uniform, overall_registry
from dubhe_flwr.experiments.findings import federation_summary
from dubhe_flwr.experiments.study import draw_federation, study
from dubhe_flwr.experiments.study_settings import StudySettings
from reproduction.cell import Advance, Cell, Measured, Resources
from reproduction.methods import Method

__all__ = [
    "measure_registry",
    "measure_study",
    "registry_cell",
    "study_cell",
    "study_settings",
]

_UNUSED_BY_BASELINES = (
    "participation",
    "determination",
    "tries",
    "group_size",
    "coverage",
    "floor",
    "local_skew",
    "thresholds",
    "registration_interval",
)


def study_cell(method: Method, **given: Any) -> Cell:
    """Return the cell of a method's selections.

    Parameters
    ----------
    method : Method
        How to select.
    **given
        Settings of the study, as in `StudySettings`.

    Examples
    --------
    >>> study_cell(Method("greedy"), num_participants=10).name
    '10/1.5, dirichlet, N=1000, K=10, greedy, seed 0'
    """
    settings = StudySettings(**{**given, **method.settings})
    config = _json(settings) | {"method": method.kind}
    if method.kind != "dubhe":
        # What a baseline does not depend on is no part of its identity.
        config = {name: value for name, value in config.items() if name not in _UNUSED_BY_BASELINES}
    name = (
        f"{settings.rho:g}/{settings.emd}, {settings.generator}, N={settings.num_clients}, "
        f"K={settings.num_participants}, {method}, seed {settings.seed}"
    )
    slow = {"greedy": settings.num_participants, "dubhe": 30}.get(method.kind, 5)
    return Cell("study", name, config, settings.num_rounds * settings.num_clients * slow / 1e7)


def registry_cell(**given: Any) -> Cell:
    """Return the cell of the overall registry of a federation.

    Parameters
    ----------
    **given
        Settings of the federation, reference set and thresholds, as in `StudySettings`.

    Examples
    --------
    >>> registry_cell(rho=5).name
    'registry of 5/1.5, dirichlet, N=1000, seed 0'
    """
    settings = StudySettings(**given)
    name = (
        f"registry of {settings.rho:g}/{settings.emd}, {settings.generator}, "
        f"N={settings.num_clients}, seed {settings.seed}"
    )
    return Cell("registry", name, _json(settings), 0.1)


def measure_study(config: Mapping[str, Any], _resources: Resources, advance: Advance) -> Measured:
    """Select for as many rounds as the cell has."""
    settings = study_settings(config)
    method = str(config["method"])
    results = study(
        settings, lambda _method, _round: advance(1 / settings.num_rounds), methods=(method,)
    )
    content = results.to_dict()
    return Measured(
        {
            "federation": content["federation"],
            "global_emd": distance_to_uniform(results.federation.class_proportions),
            **content["methods"][method],
        }
    )


def measure_registry(
    config: Mapping[str, Any], _resources: Resources, _advance: Advance
) -> Measured:
    """Count the clients of each category."""
    settings = study_settings(config)
    federation = draw_federation(settings)
    codebook = Codebook(settings.reference_set)
    (thresholds, *_) = settings.protocol_settings().candidates
    overall, _ = overall_registry(federation.label_counts, codebook, thresholds)
    counts = [
        {"category": list(codebook.unrank(slot)), "clients": int(count)}
        for slot, count in enumerate(overall)
    ]
    summary = asdict(federation_summary(federation))
    return Measured({"federation": summary, "categories": counts})


def study_settings(config: Mapping[str, Any]) -> StudySettings:
    """Return the settings that a cell was made from.

    Parameters
    ----------
    config : mapping
        Of a cell of this module.
    """
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in config.items()
        if name in StudySettings.__dataclass_fields__
    }
    return StudySettings(**known)


def _json(settings: StudySettings) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }
