"""What the results of all experiments have in common: their parts, and the file they go to."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ClassProportions", "FederationSummary", "Results", "Selected"]


@dataclass(frozen=True)
class ClassProportions:
    """Class proportions ``p_o`` of the clients that trained, over all rounds.

    Parameters
    ----------
    mean, sd : tuple of float, length C
        Mean and standard deviation over the rounds.
    """

    mean: tuple[float, ...]
    sd: tuple[float, ...]


@dataclass(frozen=True)
class FederationSummary:
    """The federation in which all methods trained.

    Parameters
    ----------
    name : str
        Data set, ``rho`` and EMD_avg, as in the paper: ``mnist-10/1.5``.
    num_clients, num_classes, num_samples : int
        ``N``, ``C`` and ``N_VC``, the samples of each client.
    rho : float
        Realised imbalance ratio of the classes.
    emd : float
        Realised EMD_avg of the clients.
    class_proportions : tuple of float, length C
        ``p_g``.
    """

    name: str
    num_clients: int
    num_classes: int
    num_samples: int
    rho: float
    emd: float
    class_proportions: tuple[float, ...]


class Selected(Protocol):
    """What the result of every way of selecting tells of the data that it selected."""

    @property
    def emd(self) -> tuple[float, ...]:
        """``||p_o - p_u||_1`` of each round."""

    @property
    def local_emd(self) -> tuple[float, ...]:
        """``mean_k ||p_l^k - p_o||_1`` of each round."""

    @property
    def class_proportions(self) -> ClassProportions:
        """``p_o``."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""


@dataclass(frozen=True)
class Results:
    """All that an experiment found. It names no client, no label of one, and no secret.

    A subclass says of which kind the results of its methods are.

    Parameters
    ----------
    config : mapping
        Settings, versions, command line and date.
    federation : FederationSummary
        Where the methods selected.
    methods : mapping of str to Selected
        What each of them reached.
    """

    config: Mapping[str, Any]
    federation: FederationSummary
    methods: Mapping[str, Selected]

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes."""
        return {
            "config": dict(self.config),
            "federation": asdict(self.federation),
            "methods": {name: method.to_dict() for name, method in self.methods.items()},
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON, into a folder that is made if need be.

        Parameters
        ----------
        path : Path
            Usually ends in `.json`.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")
