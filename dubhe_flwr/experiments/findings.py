"""What every experiment tells of itself: where the numbers come from, and what was selected."""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import average_emd, coverage, distance_to_uniform, population_distribution
from dubhe_flwr.data import Federation
from dubhe_flwr.protocol import Plan
from dubhe_flwr.report import ClassProportions, FederationSummary

__all__ = ["federation_summary", "plan_notes", "provenance", "selected_data"]


def selected_data(selected: Sequence[ArrayLike], federation: Federation) -> dict[str, Any]:
    """Return the fields of `Selected` of the rows that were selected in each round, but the notes.

    Examples
    --------
    >>> federation = Federation("letters", np.array([[4, 0], [0, 4], [2, 2]]))
    >>> selected_data([[0, 1], [0]], federation)["emd"]
    (0.0, 1.0)
    """
    distributions = federation.label_distributions
    rounds = [np.asarray(clients, dtype=np.int64) for clients in selected]
    locals_ = [distributions[clients] for clients in rounds]
    populations = [population_distribution(local) for local in locals_]
    by_class: NDArray[np.float64] = np.array(populations)
    return {
        "emd": tuple(map(distance_to_uniform, populations)),
        "local_emd": tuple(map(average_emd, locals_, populations)),
        "coverage": coverage([clients.tolist() for clients in rounds], federation.num_clients),
        "class_proportions": ClassProportions(
            mean=tuple(by_class.mean(axis=0).tolist()), sd=tuple(by_class.std(axis=0).tolist())
        ),
    }


def federation_summary(federation: Federation) -> FederationSummary:
    """Return the figures of a federation that its results name, as realised."""
    return FederationSummary(
        name=federation.name,
        num_clients=federation.num_clients,
        num_classes=federation.num_classes,
        num_samples=federation.num_samples,
        rho=federation.rho,
        emd=federation.emd,
        class_proportions=tuple(federation.global_distribution.tolist()),
    )


def plan_notes(plans: Iterable[Plan]) -> dict[str, Any]:
    """Return the fields of `Selected` that tell what did not go as planned."""
    notes, fallback_rounds = [], []
    for plan in plans:
        dropped = [
            f"Replies dropped at {stage.stage}: {number} ({reason})."
            for stage in plan.stages
            for reason, number in stage.dropped.items()
        ]
        notes += [f"Round {plan.server_round}: {note}" for note in (*plan.notes, *dropped)]
        fallback_rounds += [plan.server_round] if plan.fallback else []
    return {"notes": tuple(notes), "fallback_rounds": tuple(fallback_rounds)}


def provenance(packages: Iterable[str], program: str = "dubhe") -> dict[str, Any]:
    """Return what might explain a difference: versions of packages, command line and date."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name.replace("-", "_"): version(name) for name in packages},
        },
        "command": shlex.join([*program.split(), *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
