"""The results of comparisons and of `dubhe paper`: the contents of JSON files, and summary figures.

`ComparisonResults` describes a file: its config, its federation, and a `MethodResult` per method.
`dubhe paper` also stores a `SelectionResult` where nothing is trained. Both extend `Selected`,
which describes the selected data. Files name no client and hold no single client's labels. Names in
a file never change, since users' scripts read them.
"""

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Self

from dubhe_lab.report.methods import server_learns

_FINAL_EVALUATIONS = 5


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON and make the folder if needed, replacing an old file in one step."""
    text = json.dumps(content, indent=1) + "\n"
    if path.exists() and not path.is_file():  # such as /dev/stdout
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()  # so that a symbolic link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)


def read_json(path: Path, names: Collection[str]) -> dict[str, Any] | None:
    """Return what `write_json` wrote, or None if there is no file.

    Raises `ValueError` if the file holds anything but an object with these names.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(content, dict) or not set(names) <= content.keys():
        raise ValueError(f"{path} does not hold {', '.join(names)}.")
    return content


def rounds_to(target: float, accuracy: Sequence[float | None]) -> int | None:
    """Return the first round whose evaluation reached the target accuracy, or None.

    Examples
    --------
    >>> rounds_to(0.9, [0.1, None, 0.9, 0.95])
    2
    """
    numbered = enumerate(accuracy)
    return next((number for number, of in numbered if of is not None and of >= target), None)


@dataclass(frozen=True)
class ClassProportions:
    """Mean and standard deviation of the selected data's class proportions ``p_o`` over rounds."""

    mean: tuple[float, ...]
    sd: tuple[float, ...]


@dataclass(frozen=True)
class FederationSummary:
    """The federation in which all methods trained, as it was drawn.

    Parameters
    ----------
    name : str
        Data set, ``rho`` and EMD_avg, as in the paper: ``mnist-10/1.5``.
    num_clients, num_classes, num_samples : int
        ``N``, ``C``, and ``N_VC``, the samples per client.
    rho, emd : float
        Size of the largest class over the smallest, and EMD_avg of the clients.
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


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The data that a method selected, round by round.

    Parameters
    ----------
    emd : tuple of float, length num_rounds
        ``||p_o - p_u||_1`` of each round.
    local_emd : tuple of float, length num_rounds
        ``mean_k ||p_l^k - p_o||_1`` over the clients of each round.
    coverage : float
        Share of all clients that were selected at least once.
    class_proportions : ClassProportions
        ``p_o``.
    notes : tuple of str
        Sentences on anything that did not go as planned.
    privacy : str
        What noisy sums reveal about one client at worst, in words; empty without noise.
    fallback_rounds : tuple of int
        Rounds in which the method fell back to random selection.
    """

    emd: tuple[float, ...]
    local_emd: tuple[float, ...]
    coverage: float
    class_proportions: ClassProportions
    notes: tuple[str, ...] = ()
    privacy: str = ""
    fallback_rounds: tuple[int, ...] = ()

    @property
    def mean_emd(self) -> float:
        """Mean of `emd` over the rounds."""
        return fmean(self.emd)

    @property
    def mean_local_emd(self) -> float:
        """Mean of `local_emd` over the rounds."""
        return fmean(self.local_emd)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` described, even after a round trip through JSON."""
        # Files of earlier versions lack the newest fields, which have defaults.
        values = {own.name: told[own.name] for own in fields(cls) if own.name in told}
        shares = {name: tuple(of) for name, of in values.pop("class_proportions").items()}
        series = {name: tuple(of) for name, of in values.items() if isinstance(of, list)}
        return cls(**values | series, class_proportions=ClassProportions(**shares))

    def to_dict(self) -> dict[str, Any]:
        """Return the summary figures and all fields."""
        return {"mean_emd": self.mean_emd, "mean_local_emd": self.mean_local_emd} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class MethodResult(Selected):
    """The result of training with one selection method; extends `Selected`.

    Parameters
    ----------
    num_rounds : int
        Rounds of training.
    accuracy, loss : tuple of float or None, length num_rounds + 1
        On the test set, beginning with the initial model. None stands for a round without an
        evaluation, and in a file also for a loss that is not finite.
    balanced_accuracy, worst_recall : tuple of float or None, length num_rounds + 1
        Mean and lowest recall of all classes, in the same form; empty in files that lack them.
    selection_seconds, training_seconds : float
        Time over all rounds.
    bytes_up, bytes_down : int
        Bytes from and to all clients in all rounds, for selection and model updates.
    selection_bytes_up, selection_bytes_down : int
        The part of these bytes that belongs to the selection.
    messages : int, optional
        Requests for the selection in all rounds, each with a reply; None in files that lack it.
    evaluations : int
        How many of these requests asked a client to evaluate the current model.
    """

    num_rounds: int
    accuracy: tuple[float | None, ...]
    loss: tuple[float | None, ...]
    selection_seconds: float
    training_seconds: float
    bytes_up: int
    bytes_down: int
    selection_bytes_up: int
    selection_bytes_down: int
    messages: int | None = None
    evaluations: int = 0
    balanced_accuracy: tuple[float | None, ...] = ()
    worst_recall: tuple[float | None, ...] = ()

    @property
    def final_accuracy(self) -> float:
        """Mean accuracy over the last five evaluated rounds."""
        return fmean(self.final_accuracies)

    @property
    def final_accuracies(self) -> list[float]:
        """Accuracies of the last five evaluated rounds, or of all if there are fewer."""
        evaluated = [accuracy for accuracy in self.accuracy[1:] if accuracy is not None]
        return evaluated[-_FINAL_EVALUATIONS:]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary figures and all fields."""
        loss = tuple(of if of is None or math.isfinite(of) else None for of in self.loss)
        return {"final_accuracy": self.final_accuracy} | super().to_dict() | {"loss": loss}


@dataclass(frozen=True, kw_only=True)
class SelectionResult(Selected):
    """The result of one selection method without training; extends `Selected`.

    Parameters
    ----------
    coverage_100 : float
        Share of all clients that were selected at least once in the first 100 rounds.
    seconds : float
        Time over all rounds, of server and clients together.
    """

    coverage_100: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the summary figures, such as the standard deviation of `emd`, and all fields."""
        return {"sd_emd": pstdev(self.emd)} | super().to_dict()


@dataclass(frozen=True)
class ComparisonResults:
    """The results of a comparison.

    `config` holds its settings, versions, command line, date and device.
    """

    config: Mapping[str, Any]
    federation: FederationSummary
    methods: Mapping[str, MethodResult]

    @property
    def target_accuracy(self) -> float:
        """The lowest `final_accuracy` of any method, rounded down to a whole percent."""
        lowest = min(of.final_accuracy for of in self.methods.values())
        return math.floor(round(100 * lowest, 6)) / 100  # 100 * 0.29 is 28.999...

    def to_dict(self) -> dict[str, Any]:
        """Return the content that `save` writes, with figures over all methods."""
        target = self.target_accuracy
        return {
            "config": dict(self.config),
            "federation": asdict(self.federation),
            "methods": {
                name: of.to_dict()
                | {
                    "rounds_to_target": rounds_to(target, of.accuracy),
                    "server_learns": server_learns(name),
                }
                for name, of in self.methods.items()
            },
            "target_accuracy": target,
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        write_json(path, self.to_dict())
