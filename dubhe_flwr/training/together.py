"""Which clients of a round can train together, and what becomes of the others."""

import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from logging import WARNING
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from dubhe_flwr.adapter.transport import log
from dubhe_flwr.errors import CohortError
from dubhe_flwr.training.cohort import train_cohort
from dubhe_flwr.training.loop import adam, limited_threads

__all__ = ["Cohort", "Trained", "Training"]


@dataclass(frozen=True, eq=False)
class Training:
    """What a client is about to do: the arguments of `train`, and what the model begins with.

    Clients may share the model; the state is a copy. The generator is made anew by clients that
    train alone after all.
    """

    model: nn.Module
    state: Sequence[Tensor]
    samples: tuple[Tensor, Tensor]
    new_generator: Callable[[], np.random.Generator]
    settings: dict[str, Any]
    num_threads: int | None


Trained: TypeAlias = tuple[Sequence[Tensor], float]
"""What came of a training: parameters and buffers as in the state dict, and the loss."""


class Cohort:
    """Trains the clients of a round together, where their models and settings allow it.

    Give one to `dubhe_flwr.simulation.run_in_process`; each `TorchClient` that is asked to train
    then waits for the others of its batch. Those that differ in their model, settings or number of
    samples train apart. Where training together fails, the clients train one by one from then on,
    and Flower's log says so once.

    Attributes
    ----------
    failure : str or None
        Why clients no longer train together.
    """

    def __init__(self) -> None:
        self.failure: str | None = None

    @property
    def told(self) -> str:
        """``on``, or since what failure it is off."""
        return "on" if self.failure is None else f"off after {self.failure}"

    def __call__(self, trainings: Sequence[Training]) -> list[Trained | None]:
        """Return what came of each training; None leaves it to the client itself."""
        results: list[Trained | None] = [None] * len(trainings)
        if self.failure is not None:
            return results
        try:
            for group in _groups(trainings):
                trained = _train([trainings[index] for index in group])
                for index, result in zip(group, trained, strict=True):
                    results[index] = result
        except Exception as error:  # noqa: BLE001 - torch and models fail in any way; alone may work
            own = isinstance(error, CohortError)
            self.failure = str(error) if own else f"{type(error).__name__}: {error}"
            log(WARNING, "dubhe: clients train one by one from now on (%s)", self.failure)
        return results


def _groups(trainings: Sequence[Training]) -> list[list[int]]:
    """Return the indices of trainings that are alike in all but their numbers."""
    models = {id(training.model): training.model for training in trainings}
    kinds = {key: _kind(model) if len(models) > 1 else "" for key, model in models.items()}
    alike: dict[Any, list[int]] = {}
    for index, training in enumerate(trainings):
        key = kinds[id(training.model)], _settings(training)
        alike.setdefault(key, []).append(index)
    return [group for group in alike.values() if len(group) > 1]


def _train(trainings: Sequence[Training]) -> Sequence[Trained]:
    first = trainings[0]
    with limited_threads(first.num_threads):
        return train_cohort(
            first.model,
            [training.state for training in trainings],
            [training.samples for training in trainings],
            generators=[training.new_generator() for training in trainings],
            **first.settings,
        )


def _kind(model: nn.Module) -> object:
    """Return what is equal for models that compute the same from the same parameters."""
    try:
        return pickle.dumps(deepcopy(model).to("meta").train())
    except Exception:  # noqa: BLE001 - what cannot be compared is not known to be equal
        return id(model)


def _settings(training: Training) -> str:
    images, labels = training.samples
    settings = dict(training.settings)
    stepper = (settings.pop("optimizer") or adam())(training.model.parameters())
    positions = {id(parameter): at for at, parameter in enumerate(training.model.parameters())}
    groups = [
        {**group, "params": [positions.get(id(parameter)) for parameter in group["params"]]}
        for group in stepper.param_groups
    ]
    shapes = (images.shape, images.dtype, labels.shape)
    return repr((settings, training.num_threads, shapes, type(stepper), groups))
