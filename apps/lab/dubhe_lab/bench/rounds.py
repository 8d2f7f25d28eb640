"""Training rounds per second in a plain loop, on both engines and in pfl-research."""

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from logging import ERROR
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import NDArrays, Parameters, Scalar, ndarrays_to_parameters
from flwr.server.strategy import FedAvg
from torch.nn.functional import cross_entropy

from dubhe_lab.bench.engine import EngineSettings
from dubhe_lab.bench.measuring import BenchResults, environment
from dubhe_lab.experiments.apps import build_server_app, refuse_failures
from dubhe_lab.experiments.compare import simulate
from dubhe_lab.experiments.options import CommandSettings, option, same
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.report.table import Table
from dubhe_lab.training.client import TorchClient
from dubhe_lab.training.loop import limited_threads, sgd, train
from dubhe_lab.training.models import build_model, get_parameters, set_parameters

_BATCH_SIZE: Final = 8
_LEARNING_RATE: Final = 0.1
_SHAPE: Final = (1, 28, 28)
_NUM_CLASSES: Final = 10
_FLOOR: Final = "a plain loop"


@dataclass(frozen=True, kw_only=True)
class RoundsSettings(CommandSettings):
    """The settings of `bench_rounds`, in which all clients train on images as large as MNIST's."""

    num_clients: int = option(20, "Clients, all of which train each round.", least=1, quick=3)
    num_steps: int = option(16, "Training steps per client, each on 8 images.", least=1, quick=2)
    num_rounds: int = option(5, "Rounds to measure, after one to warm up.", least=1, quick=2)
    repeats: int = option(2, "Passes over all engines.", least=1, quick=1)
    ray: bool = same(EngineSettings, "ray")
    pfl: bool = option(
        default=find_spec("pfl") is not None,
        about="Measure pfl-research, if installed.",
        quick=False,
    )


def bench_rounds(settings: RoundsSettings) -> BenchResults:
    """Count training rounds per second in a plain loop, on both engines and in pfl-research."""
    engines: dict[str, Callable[[RoundsSettings], list[float]]] = {
        _FLOOR: _plain_loop,
        "inprocess": lambda of: _flower("inprocess", of),
        **({"ray": lambda of: _flower("ray", of)} if settings.ray else {}),
        **({"pfl": _pfl} if settings.pfl else {}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    with flower_log_level(ERROR), limited_threads(1):
        for _ in range(settings.repeats):
            for name, rounds in engines.items():
                seconds[name] += rounds(settings)
    rates = {name: 1 / median(of) for name, of in seconds.items()}
    shares = {name: rate / rates[_FLOOR] for name, rate in rates.items()}
    title = (
        f"{settings.num_clients} clients train {settings.num_steps} steps of {_BATCH_SIZE} images "
        "each: median rounds per second of wall time, and relative to a loop without a "
        "simulator. Each client trains on one core; Ray trains clients on all cores at once."
    )
    return BenchResults(
        config={
            **settings.flat(),
            **environment(["flwr", "torch", *(each for each in ("ray", "pfl") if each in engines)]),
        },
        figures={
            "plain_loop_rounds_per_second" if name == _FLOOR else f"{name}_rounds_per_second": rate
            for name, rate in rates.items()
        },
        measured={"seconds": seconds},
        tables=[
            Table(
                title,
                ("engine", "rounds per second", "relative to a loop"),
                [(name, f"{rates[name]:.3f}", f"{shares[name]:.0%}") for name in engines],
            )
        ],
    )


def _data(client: int, settings: RoundsSettings) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(client)
    number = settings.num_steps * _BATCH_SIZE
    images = torch.randn((number, *_SHAPE), generator=rng)
    return images, torch.randint(_NUM_CLASSES, (number,), generator=rng)


def _model() -> torch.nn.Module:
    return build_model(_SHAPE, _NUM_CLASSES, seed=0)


def _between(moments: list[float]) -> list[float]:
    """Return the duration of each round except the first, which warms up."""
    return [after - before for before, after in pairwise(moments)][1:]


def _plain_loop(settings: RoundsSettings) -> list[float]:
    """Train each client with the same function and average, without messages or a simulator."""
    model, data = _model(), [_data(row, settings) for row in range(settings.num_clients)]
    average, moments = get_parameters(model), [perf_counter()]
    for _ in range(settings.num_rounds + 1):
        trained = []
        for images, labels in data:
            set_parameters(model, average)
            train(
                model,
                images,
                labels,
                generator=np.random.default_rng(0),
                batch_size=_BATCH_SIZE,
                optimizer=sgd(_LEARNING_RATE),
            )
            trained.append(get_parameters(model))
        average = [np.mean(layer, axis=0) for layer in zip(*trained, strict=True)]
        moments.append(perf_counter())
    return _between(moments)


def _flower(engine: str, settings: RoundsSettings) -> list[float]:
    """Run Flower's FedAvg with all clients training in every round."""
    moments: list[float] = []
    model = _model()

    def client_fn(context: Context) -> Client:
        client = int(context.node_config["partition-id"])
        data = _data(client, settings)
        return TorchClient(
            model,
            data,
            batch_size=_BATCH_SIZE,
            optimizer=sgd(_LEARNING_RATE),
            device="cpu",
            num_threads=1,
        ).to_client()

    def note(_round: int, _model: NDArrays, _config: dict[str, Scalar]) -> None:
        moments.append(perf_counter())

    class WithoutFailures(FedAvg):
        """Ends the run if a client fails, since a round without training would look fast."""

        def aggregate_fit(
            self, server_round: int, results: list[Any], failures: list[Any]
        ) -> tuple[Parameters | None, dict[str, Scalar]]:
            refuse_failures(server_round, results, failures)
            return super().aggregate_fit(server_round, results, failures)

    strategy = WithoutFailures(
        fraction_evaluate=0.0,
        min_fit_clients=settings.num_clients,
        min_available_clients=settings.num_clients,
        evaluate_fn=note,
        initial_parameters=ndarrays_to_parameters(get_parameters(model)),
    )
    server_app = build_server_app(strategy, settings.num_rounds + 1)
    simulate(engine, server_app, ClientApp(client_fn=client_fn), settings.num_clients)
    return _between(moments)


def _pfl(settings: RoundsSettings) -> list[float]:
    """Run pfl-research's federated averaging over the same clients."""
    from pfl.aggregate.simulate import SimulatedBackend  # noqa: PLC0415 - not a dependency
    from pfl.algorithm.base import NNAlgorithmParams  # noqa: PLC0415
    from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: PLC0415
    from pfl.callback.base import TrainingProcessCallback  # noqa: PLC0415
    from pfl.data.dataset import Dataset  # noqa: PLC0415
    from pfl.data.federated_dataset import FederatedDataset  # noqa: PLC0415
    from pfl.hyperparam import NNTrainHyperParams  # noqa: PLC0415
    from pfl.metrics import Metrics  # noqa: PLC0415
    from pfl.model.pytorch import PyTorchModel  # noqa: PLC0415

    moments = [perf_counter()]

    class Note(TrainingProcessCallback):  # type: ignore[misc,unused-ignore]
        """Records the time after each round."""

        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
            moments.append(perf_counter())
            return False, Metrics()

    class Learner(torch.nn.Module):
        """A model with its loss and metrics, as pfl-research expects."""

        def __init__(self) -> None:
            super().__init__()
            self.model = _model()

        def loss(self, images: torch.Tensor, labels: torch.Tensor, **_: bool) -> torch.Tensor:
            self.train()
            return cross_entropy(self.model(images), labels)

        def metrics(self, *_: torch.Tensor, **__: bool) -> dict[str, float]:
            return {}

    def of_client(client: int) -> Dataset:
        return Dataset(raw_data=_data(client, settings), user_id=str(client))

    def in_turn() -> Iterator[int]:
        while True:
            yield from range(settings.num_clients)

    learner = Learner()
    turn = in_turn()
    clients = FederatedDataset(of_client, lambda: next(turn))
    with redirect_stdout(StringIO()):  # it prints after each round
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=settings.num_rounds + 1,
                evaluation_frequency=10**9,
                train_cohort_size=settings.num_clients,
                val_cohort_size=0,
            ),
            backend=SimulatedBackend(training_data=clients, val_data=clients),
            model=PyTorchModel(
                model=learner,
                local_optimizer_create=torch.optim.SGD,
                central_optimizer=torch.optim.SGD(learner.parameters(), 1.0),
            ),
            model_train_params=NNTrainHyperParams(
                local_num_epochs=1, local_learning_rate=_LEARNING_RATE, local_batch_size=_BATCH_SIZE
            ),
            callbacks=[Note()],
        )
    return _between(moments)
