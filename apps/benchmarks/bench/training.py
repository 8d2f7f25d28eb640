"""How long local training takes: a plain loop, our clients one by one, and a cohort."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
import torch
from flwr.common import NDArrays
from torch import nn
from torch.nn.functional import cross_entropy

from bench.measuring import BenchResults, environment
from dubhe_flwr.core import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments.options import Options, option, same
from dubhe_flwr.experiments.settings import FederationSettings, MachineSettings, TrainingSettings
from dubhe_flwr.report.table import Table
from dubhe_flwr.simulation.meeting import hold_meeting
from dubhe_flwr.training import (
    Cohort,
    TorchClient,
    adam,
    build_model,
    limited_threads,
    resolve_device,
)

__all__ = ["SpeedSettings", "bench_training", "clients_of"]

_SHAPES: Final = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_NUM_CLASSES: Final = 10


@dataclass(frozen=True, kw_only=True)
class SpeedSettings(Options):
    """What is trained, on random images: times do not depend on them."""

    images: str = option(
        "mnist", "Whose model to train: mnist, digits or cifar10.", choices=tuple(_SHAPES)
    )
    num_clients: int = option(20, "K: clients that train.", least=1, quick=2)
    num_samples: int = same(FederationSettings, "num_samples", quick=16)
    batch_size: int = same(TrainingSettings, "batch_size")
    repeats: int = option(5, "Times that each is measured, after a first one.", least=1, quick=1)
    num_threads: int = same(TrainingSettings, "num_threads")
    precision: str = same(TrainingSettings, "precision")
    device: str = same(MachineSettings, "device")


def bench_training(settings: SpeedSettings) -> BenchResults:
    """Time the training of a round: a plain loop, our clients one by one, and all together.

    The plain loop is torch alone, written out: no seeds, no parameters in or out. The clients get
    the parameters as arrays and return them, as in a round. All use the same model, optimizer
    and number of steps, and are measured interleaved.
    """
    clients, cohort = clients_of(settings), Cohort()
    start, plain = clients[0].get_parameters({}), _model(settings)
    ours: list[list[float]] = []
    plains: list[list[float]] = []
    cohorts: list[float] = []
    with limited_threads(settings.num_threads):
        for _ in range(settings.repeats + 1):
            pairs = [_pair(client, plain, start) for client in clients]
            ours.append([pair[0] for pair in pairs])
            plains.append([pair[1] for pair in pairs])
            cohorts.append(_seconds(lambda: _together(clients, start, cohort)))
    if cohort.failure is not None:
        raise SettingsError(f"These clients cannot train together: {cohort.failure}.")
    seconds = {
        "plain_loop": median(map(sum, plains[1:])),
        "one_by_one": median(map(sum, ours[1:])),
        "cohort": median(cohorts[1:]),
    }
    return BenchResults(
        config={**settings.flat(), **environment(["dubhe-flwr", "torch"])},
        figures={
            # Of what our loop adds, measured client by client beside the plain one.
            "overhead": float(np.median(np.divide(ours[1:], plains[1:]) - 1)),
            "speedup": seconds["one_by_one"] / seconds["cohort"],
        },
        measured=seconds,
        tables=[
            Table(
                f"{settings.num_clients} clients of {settings.images} train one round: a plain "
                "loop of torch, clients one by one, and all together.",
                ("", "seconds"),
                [(name.replace("_", " "), f"{value:.3f}") for name, value in seconds.items()],
            )
        ],
    )


def clients_of(settings: SpeedSettings) -> list[TorchClient]:
    """Return the clients, which share one model."""
    model, rng = _model(settings), generator(0, "training-speed")
    shape, number = _SHAPES[settings.images], settings.num_samples
    on = resolve_device(settings.device)
    return [
        TorchClient(
            model,
            (
                torch.from_numpy(rng.normal(size=(number, *shape)).astype(np.float32)).to(on),
                torch.from_numpy(rng.integers(0, _NUM_CLASSES, number)).to(on),
            ),
            batch_size=settings.batch_size,
            device=settings.device,
            alias=str(alias),
            num_threads=settings.num_threads,
            precision=settings.precision,
        )
        for alias in range(settings.num_clients)
    ]


def _model(settings: SpeedSettings) -> nn.Module:
    model = build_model(_SHAPES[settings.images], _NUM_CLASSES, 0, norm="group")
    return model.to(resolve_device(settings.device))


def _pair(client: TorchClient, plain: nn.Module, start: NDArrays) -> tuple[float, float]:
    """Return the seconds of our loop and of the plain one, for the same samples."""
    return (
        _seconds(lambda: client.fit(start, {"server-round": 1})),
        _seconds(lambda: _plain_loop(plain, client)),
    )


def _plain_loop(model: nn.Module, client: TorchClient) -> None:
    """Train as one writes it who needs nothing more."""
    images, labels = client.train_data
    optimizer = adam()(model.parameters())
    model.train()
    order = torch.randperm(len(labels), device=images.device)
    for batch in torch.split(order, client.settings["batch_size"]):
        optimizer.zero_grad()
        with torch.autocast(
            images.device.type, torch.bfloat16, enabled=client.settings["precision"] == "bfloat16"
        ):
            loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if images.is_cuda:
        torch.cuda.synchronize(images.device)


def _together(clients: Sequence[TorchClient], start: NDArrays, cohort: Cohort) -> None:
    config = {"server-round": 1}
    hold_meeting([partial(client.fit, start, config) for client in clients], cohort)  # type: ignore[arg-type]


def _seconds(action: Callable[[], object]) -> float:
    begin = perf_counter()
    action()
    return perf_counter() - begin
