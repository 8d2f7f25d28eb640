"""Which clients of a round can train together, and what becomes of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import WARNING
from typing import Any, Final

import numpy as np
from torch import Tensor, nn

from dubhe_flwr.adapter.transport import log
from dubhe_flwr.errors import CohortError
from dubhe_flwr.training.cohort import train_cohort
from dubhe_flwr.training.loop import OptimizerFactory, adam
from dubhe_flwr.training.runtime import limited_threads

__all__ = ["Cohort", "Trained", "Training"]

_INTERNAL: Final = frozenset(vars(nn.Module()))
"""What all modules hold; parameters and buffers are compared by their shapes."""


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
    epochs: int
    batch_size: int
    optimizer: OptimizerFactory | None
    precision: str
    num_threads: int | None


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of a training: parameters and buffers as in the state dict, and the loss."""

    state: Sequence[Tensor]
    loss: float


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

    Examples
    --------
    >>> Cohort()([])
    []
    """

    def __init__(self) -> None:
        self.failure: str | None = None
        self._said_different = False

    def __call__(self, trainings: Sequence[Training]) -> list[Trained | None]:
        """Return what came of each training; None leaves it to the client itself."""
        results: list[Trained | None] = [None] * len(trainings)
        if self.failure is not None:
            return results
        try:
            for group in self._groups(trainings):
                trained = _train([trainings[index] for index in group])
                for index, result in zip(group, trained, strict=True):
                    results[index] = result
        except CohortError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - torch and models fail in any way; alone may work
            self._fail(f"{type(error).__name__}: {error}")
        return results

    def _fail(self, reason: str) -> None:
        self.failure = reason
        log(WARNING, "dubhe: clients train one by one from now on (%s)", reason)

    def _groups(self, trainings: Sequence[Training]) -> list[list[int]]:
        groups = [group for group in _groups(trainings) if len(group) > 1]
        if not groups and len(trainings) > 1 and not self._said_different:
            self._said_different = True
            log(
                WARNING,
                "dubhe: clients train one by one: no two of them have the same model, settings "
                "and number of samples",
            )
        return groups


def _train(trainings: Sequence[Training]) -> list[Trained]:
    first = trainings[0]
    with limited_threads(first.num_threads):
        states, losses = train_cohort(
            first.model,
            [training.state for training in trainings],
            [training.samples for training in trainings],
            generators=[training.new_generator() for training in trainings],
            epochs=first.epochs,
            batch_size=first.batch_size,
            optimizer=first.optimizer,
            precision=first.precision,
        )
    return [Trained(state, loss) for state, loss in zip(states, losses, strict=True)]


def _groups(trainings: Sequence[Training]) -> list[list[int]]:
    """Return the indices of trainings, those together that are alike in all but their numbers."""
    groups: list[tuple[Any, nn.Module, list[int]]] = []
    for index, training in enumerate(trainings):
        settings = _settings(training)
        for others, model, members in groups:
            if _equal(settings, others) and _alike(training.model, model):
                members.append(index)
                break
        else:
            groups.append((settings, training.model, [index]))
    return [members for _, _, members in groups]


def _settings(training: Training) -> list[Any]:
    images, labels = training.samples
    stepper = (training.optimizer or adam())(training.model.parameters())
    positions = {id(parameter): at for at, parameter in enumerate(training.model.parameters())}
    return [
        (training.epochs, training.batch_size, training.precision, training.num_threads),
        (images.shape, images.dtype, labels.shape),
        [(tensor.shape, tensor.dtype, tensor.device) for tensor in training.state],
        [parameter.requires_grad for parameter in training.model.parameters()],
        type(stepper),
        [
            {**group, "params": [positions.get(id(parameter)) for parameter in group["params"]]}
            for group in stepper.param_groups
        ],
    ]


def _alike(first: nn.Module, second: nn.Module) -> bool:
    """Return whether two models compute the same from the same parameters."""
    if first is second:
        return True
    modules, others = dict(first.named_modules()), dict(second.named_modules())
    return modules.keys() == others.keys() and all(
        type(module) is type(others[name])
        and _equal(_attributes(module), _attributes(others[name]))
        for name, module in modules.items()
    )


def _attributes(module: nn.Module) -> dict[str, Any]:
    hooks = {
        name: value for name, value in vars(module).items() if name.endswith("_hooks") and value
    }
    own = {name: value for name, value in vars(module).items() if name not in _INTERNAL}
    return {**own, **hooks}


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001 - what cannot be compared is not known to be equal
        return False
