"""What a comparison found: the contents of `results.json`, written and read in one place."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Self

from dubhe_flwr.errors import DataError
from dubhe_flwr.report.results import ClassProportions, FederationSummary, Results

__all__ = ["ComparisonResults", "MethodResult"]

_FINAL_EVALUATIONS = 5


@dataclass(frozen=True)
class MethodResult:
    """How one way of selecting fared.

    Parameters
    ----------
    num_rounds : int
        Rounds of training.
    accuracy, loss : tuple of float or None, length num_rounds + 1
        On the test set; the first value is that of the initial model. None stands for a round
        without an evaluation.
    emd : tuple of float, length num_rounds
        ``||p_o - p_u||_1`` of each round.
    local_emd : tuple of float, length num_rounds
        ``mean_k ||p_l^k - p_o||_1`` over the clients of each round.
    coverage : float
        Share of all clients that trained at least once.
    class_proportions : ClassProportions
        ``p_o``.
    selection_seconds, training_seconds : float
        Time of all rounds.
    bytes_up, bytes_down : int
        From and to all clients in all rounds: selection and model updates.
    selection_bytes_up, selection_bytes_down : int
        The part of it that belongs to the selection.
    notes : tuple of str
        What did not go as planned, in sentences.
    fallback_rounds : tuple of int
        Rounds that the method gave up and whose clients were chosen at random instead.
    """

    num_rounds: int
    accuracy: tuple[float | None, ...]
    loss: tuple[float | None, ...]
    emd: tuple[float, ...]
    local_emd: tuple[float, ...]
    coverage: float
    class_proportions: ClassProportions
    selection_seconds: float
    training_seconds: float
    bytes_up: int
    bytes_down: int
    selection_bytes_up: int
    selection_bytes_down: int
    notes: tuple[str, ...] = ()
    fallback_rounds: tuple[int, ...] = ()

    @property
    def final_accuracy(self) -> float:
        """Mean accuracy of the last five rounds that were evaluated."""
        return sum(self.final_accuracies) / len(self.final_accuracies)

    @property
    def final_accuracies(self) -> list[float]:
        """Accuracies of the last five rounds that were evaluated, or of all if they are fewer."""
        evaluated = [accuracy for accuracy in self.accuracy[1:] if accuracy is not None]
        return evaluated[-_FINAL_EVALUATIONS:]

    @property
    def mean_emd(self) -> float:
        """Mean of `emd` over the rounds."""
        return sum(self.emd) / len(self.emd)

    @property
    def mean_local_emd(self) -> float:
        """Mean of `local_emd` over the rounds."""
        return sum(self.local_emd) / len(self.local_emd)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, headed by the figures that sum them up."""
        summary = {
            "final_accuracy": self.final_accuracy,
            "mean_emd": self.mean_emd,
            "mean_local_emd": self.mean_local_emd,
        }
        return summary | asdict(self)


@dataclass(frozen=True)
class ComparisonResults(Results):
    """All that a comparison found; its config also names the device."""

    methods: Mapping[str, MethodResult]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the results that `to_dict` told of; a missing field is a `KeyError`."""
        return cls(
            config=content["config"],
            federation=FederationSummary(**_own(FederationSummary, content["federation"])),
            methods={name: _method(fields) for name, fields in content["methods"].items()},
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : Path
            A `results.json`.

        Raises
        ------
        DataError
            If the file is missing or lacks a field.
        """
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise DataError(f"There is no {path}; write one with `dubhe compare`.") from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(
                f"{path} holds no results of a comparison ({type(error).__name__}: {error}); "
                "write it anew with `dubhe compare`."
            ) from None


def _own(cls: type, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what belongs to a dataclass, with lists as tuples; derived figures are left out."""
    own = {field.name: content[field.name] for field in fields_of(cls)}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}


def _method(content: Mapping[str, Any]) -> MethodResult:
    own = _own(MethodResult, content)
    proportions = ClassProportions(**_own(ClassProportions, own["class_proportions"]))
    return MethodResult(**(own | {"class_proportions": proportions}))
