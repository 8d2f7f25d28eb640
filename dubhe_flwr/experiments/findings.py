"""What every experiment tells of itself: where the numbers come from, and what was selected."""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import average_emd, coverage, distance_to_uniform, population_distribution
from dubhe_flwr.data import Federation
from dubhe_flwr.protocol import Plan
from dubhe_flwr.report import ClassProportions, FederationSummary

__all__ = ["SelectedData", "federation_summary", "plan_notes", "provenance"]


@dataclass(frozen=True)
class SelectedData:
    """The data of the clients that were selected, round by round.

    Parameters
    ----------
    emd : tuple of float, length num_rounds
        ``||p_o - p_u||_1``.
    local_emd : tuple of float, length num_rounds
        ``mean_k ||p_l^k - p_o||_1``.
    coverage : float
        Share of all clients that were selected at least once.
    class_proportions : ClassProportions
        ``p_o``.
    """

    emd: tuple[float, ...]
    local_emd: tuple[float, ...]
    coverage: float
    class_proportions: ClassProportions

    @classmethod
    def of(cls, selected: Sequence[ArrayLike], federation: Federation) -> "SelectedData":
        """Look up the data of the clients of each round.

        Parameters
        ----------
        selected : sequence of array_like of int
            The rows of the federation that were selected in each round.
        federation : Federation
            All clients.

        Examples
        --------
        >>> federation = Federation("letters", np.array([[4, 0], [0, 4], [2, 2]]))
        >>> SelectedData.of([[0, 1], [0]], federation).emd
        (0.0, 1.0)
        """
        distributions = federation.label_distributions
        rounds = [np.asarray(clients, dtype=np.int64) for clients in selected]
        locals_ = [distributions[clients] for clients in rounds]
        populations = [population_distribution(local) for local in locals_]
        by_class: NDArray[np.float64] = np.array(populations)
        return cls(
            emd=tuple(map(distance_to_uniform, populations)),
            local_emd=tuple(map(average_emd, locals_, populations)),
            coverage=coverage([clients.tolist() for clients in rounds], federation.num_clients),
            class_proportions=ClassProportions(
                mean=tuple(by_class.mean(axis=0).tolist()),
                sd=tuple(by_class.std(axis=0).tolist()),
            ),
        )


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


def plan_notes(plan: Plan) -> list[str]:
    """Return what did not go as planned in a round, in sentences."""
    dropped = [
        f"Replies dropped at {stage.stage}: {number} ({reason})."
        for stage in plan.stages
        for reason, number in stage.dropped.items()
    ]
    return [f"Round {plan.server_round}: {note}" for note in (*plan.notes, *dropped)]


def provenance(packages: Iterable[str], program: str = "dubhe") -> dict[str, Any]:
    """Return what might explain a difference: versions, command line and date.

    Parameters
    ----------
    packages : iterable of str
        The packages on which the numbers depend, as they are installed.
    program : str (default: "dubhe")
        What the command line begins with.

    Examples
    --------
    >>> sorted(provenance(["numpy"])), sorted(provenance(["numpy"])["versions"])
    (['command', 'date', 'versions'], ['numpy', 'python'])
    """
    return {
        "versions": {
            "python": platform.python_version(),
            **{name.replace("-", "_"): version(name) for name in packages},
        },
        "command": shlex.join([*program.split(), *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
