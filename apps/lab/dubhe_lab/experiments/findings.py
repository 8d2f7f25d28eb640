"""The figures every experiment reports: the selected data, the federation, and the provenance."""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import distance_to_uniform
from dubhe_flwr.protocol import Plan
from dubhe_lab.data import Federation
from dubhe_lab.data.measures import average_emd, coverage
from dubhe_lab.report.results import ClassProportions, FederationSummary


def selected_data(plans: Sequence[Plan], federation: Federation) -> dict[str, Any]:
    """Return the fields of `Selected`: the data selected in each round, and what went wrong.

    Row i of the federation is the client with alias i.
    """
    distributions = federation.label_distributions
    rounds = [[int(alias) for alias in plan.aliases] for plan in plans]
    locals_ = [distributions[clients] for clients in rounds]
    populations = [local.mean(axis=0) for local in locals_]
    by_class: NDArray[np.float64] = np.array(populations)
    mean, sd = by_class.mean(axis=0).tolist(), by_class.std(axis=0).tolist()
    bounds = [plan.privacy for plan in plans if plan.privacy is not None]
    return {
        "emd": tuple(map(distance_to_uniform, populations)),
        "local_emd": tuple(map(average_emd, locals_, populations)),
        "coverage": coverage(rounds, federation.num_clients),
        "class_proportions": ClassProportions(mean=tuple(mean), sd=tuple(sd)),
        "notes": tuple(note for plan in plans for note in _notes(plan)),
        "privacy": str(max(bounds, key=lambda bound: bound.epoch)) if bounds else "",
        "fallback_rounds": tuple(plan.server_round for plan in plans if plan.fallback),
    }


def _notes(plan: Plan) -> list[str]:
    dropped = [
        f"Replies dropped at {stage.stage}: {number} ({reason})."
        for stage in plan.stages
        for reason, number in stage.dropped.items()
    ]
    return [f"Round {plan.server_round}: {note}" for note in (*plan.notes, *dropped)]


def federation_summary(federation: Federation) -> FederationSummary:
    """Return the figures of a federation as drawn, which can differ slightly from the settings."""
    names = ("name", "num_clients", "num_classes", "num_samples", "rho", "emd")
    shares = tuple(federation.global_distribution.tolist())
    return FederationSummary(**{n: getattr(federation, n) for n in names}, class_proportions=shares)


def provenance(packages: Iterable[str]) -> dict[str, Any]:
    """Return what a reader needs to repeat a result: package versions, command line and date."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name.replace("-", "_"): version(name) for name in packages},
        },
        "command": shlex.join(["dubhe", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
