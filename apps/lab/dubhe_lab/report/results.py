"""What experiments find: the contents of their files, and the figures that sum them up."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Self

from dubhe_flwr.core.distribution import distance_to_uniform

_FINAL_EVALUATIONS = 5


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON into a folder that is made if need be; the old file stays until it is complete."""
    text = json.dumps(content, indent=1) + "\n"
    if path.exists() and not path.is_file():  # such as /dev/stdout
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)


def rounds_to(target: float, accuracy: Sequence[float | None]) -> int | None:
    """Return the first round after which the model was seen to be as accurate as the target.

    Examples
    --------
    >>> rounds_to(0.9, [0.1, None, 0.9, 0.95])
    2
    """
    numbered = enumerate(accuracy)
    return next((number for number, of in numbered if of is not None and of >= target), None)


def server_learns(method: str) -> str:
    """Return in a phrase what a way of selecting shows the server; an oracle sees all labels.

    Examples
    --------
    >>> [server_learns(name) for name in ("random", "dubhe", "powd", "greedy")]
    ['nothing', 'yes/no', 'losses', 'labels']
    """
    name = method.partition(",")[0]
    if name == "random":
        return "nothing"
    if name in {"powd", "afl", "oort"}:
        return "losses"
    return "yes/no" if name.startswith("dubhe") else "labels"


def extra_work(method: str, evaluations: float) -> str:
    """Return in a phrase what clients do for the selection in a round, besides training.

    It is given how many evaluations of the model a round takes, of all clients together.

    Examples
    --------
    >>> extra_work("powd", 40), extra_work("dubhe", 0), extra_work("greedy", 0)
    ('40 evals', 'encrypt', 'none')
    """
    if evaluations:
        return f"{evaluations:.0f} evals"
    return "encrypt" if method.startswith("dubhe") else "none"


@dataclass(frozen=True)
class ClassProportions:
    """Mean and standard deviation over the rounds of class proportions ``p_o`` of who trained."""

    mean: tuple[float, ...]
    sd: tuple[float, ...]


@dataclass(frozen=True)
class FederationSummary:
    """The federation in which all methods trained, as realised.

    Parameters
    ----------
    name : str
        Data set, ``rho`` and EMD_avg, as in the paper: ``mnist-10/1.5``.
    num_clients, num_classes, num_samples : int
        ``N``, ``C`` and ``N_VC``, the samples of each client.
    rho, emd : float
        Imbalance ratio of the classes, and EMD_avg of the clients.
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
    """The data that a way of selecting selected, round by round.

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
        What did not go as planned, in sentences.
    privacy : str
        What noisy sums tell of one client at worst, in words; empty where there is no noise.
    fallback_rounds : tuple of int
        Rounds that the method gave up and whose clients were chosen at random instead.
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
        """Return what `to_dict` told, also after JSON made lists of its tuples."""
        # Files of earlier versions lack the newest fields, which have a default.
        values = {own.name: told[own.name] for own in fields(cls) if own.name in told}
        shares = {name: tuple(of) for name, of in values.pop("class_proportions").items()}
        series = {name: tuple(of) for name, of in values.items() if isinstance(of, list)}
        return cls(**values | series, class_proportions=ClassProportions(**shares))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""
        return {"mean_emd": self.mean_emd, "mean_local_emd": self.mean_local_emd} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class MethodResult(Selected):
    """How one way of selecting fared in a training, beside what is in `Selected`.

    Parameters
    ----------
    num_rounds : int
        Rounds of training.
    accuracy, loss : tuple of float or None, length num_rounds + 1
        On the test set; the first value is that of the initial model. None stands for a round
        without an evaluation.
    balanced_accuracy, worst_recall : tuple of float or None, length num_rounds + 1
        The same for the mean recall of the classes and the lowest one; empty in files that lack it.
    selection_seconds, training_seconds : float
        Time of all rounds.
    bytes_up, bytes_down : int
        From and to all clients in all rounds: selection and model updates.
    selection_bytes_up, selection_bytes_down : int
        The part of it that belongs to the selection.
    messages : int, optional
        Requests of the selection in all rounds, each with a reply; None in files that lack it.
    evaluations : int
        How many of these ask a client to evaluate the current model on its own data.
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
        """Mean accuracy of the last five rounds that were evaluated."""
        return fmean(self.final_accuracies)

    @property
    def final_accuracies(self) -> list[float]:
        """Accuracies of the last five rounds that were evaluated, or of all if they are fewer."""
        evaluated = [accuracy for accuracy in self.accuracy[1:] if accuracy is not None]
        return evaluated[-_FINAL_EVALUATIONS:]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""
        return {"final_accuracy": self.final_accuracy} | super().to_dict()


@dataclass(frozen=True, kw_only=True)
class SelectionResult(Selected):
    """How one way of selecting fared without any training, beside what is in `Selected`.

    Parameters
    ----------
    coverage_100 : float
        Share of all clients that were selected at least once in the first 100 rounds.
    effective_clients : float
        ``1 / sum_k s_k^2`` with ``s_k`` the share of client k in all selections: as many clients,
        each selected as often as any other, would be as varied.
    seconds : float
        Time of all rounds, of server and clients together.
    messages, bytes_up, bytes_down : int or None
        Requests of all rounds, each with a reply, and what travelled; None if nothing did.
    """

    coverage_100: float
    effective_clients: float
    seconds: float
    messages: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None

    @property
    def sd_emd(self) -> float:
        """Standard deviation of `emd` over the rounds."""
        return pstdev(self.emd)

    @property
    def bias(self) -> float:
        """``||E p_o - p_u||_1``: the part of the distance that does not average out."""
        return distance_to_uniform(self.class_proportions.mean)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""
        return {"sd_emd": self.sd_emd, "bias": self.bias} | super().to_dict()


@dataclass(frozen=True)
class Results:
    """All that an experiment found. It names no client, no label of one, and no secret.

    The config holds settings, versions, command line and date.
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
        """Write the results as JSON."""
        write_json(path, self.to_dict())


@dataclass(frozen=True)
class ComparisonResults(Results):
    """All that a comparison found; its config also names the device."""

    methods: Mapping[str, MethodResult]

    @property
    def target_accuracy(self) -> float:
        """What all methods reach: the lowest `final_accuracy`, rounded down to a whole percent."""
        lowest = min(of.final_accuracy for of in self.methods.values())
        return math.floor(round(100 * lowest, 6)) / 100  # of 0.29, which is 28.999..., 29

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes, with what follows from all methods together."""
        told, target = super().to_dict(), self.target_accuracy
        for name, of in self.methods.items():
            told["methods"][name]["rounds_to_target"] = rounds_to(target, of.accuracy)
            told["methods"][name]["server_learns"] = server_learns(name)
        return told | {"target_accuracy": target}


@dataclass(frozen=True)
class StudyResults(Results):
    """All that a study found."""

    methods: Mapping[str, SelectionResult]
