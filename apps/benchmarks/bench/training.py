"""How long local training takes: a plain loop, our clients one by one, and a cohort."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
import torch
from flwr.common import NDArrays
from torch import nn
from torch.nn.functional import cross_entropy

from dubhe_flwr.core import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.simulation.meeting import hold_meeting
from dubhe_flwr.training import (
    Cohort,
    TorchClient,
    adam,
    build_model,
    get_parameters,
    limited_threads,
    resolve_device,
)

__all__ = ["training_speed"]

_SHAPES: Final = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_NUM_CLASSES: Final = 10


def training_speed(
    images: str = "mnist",
    *,
    num_clients: int = 20,
    num_samples: int = 128,
    batch_size: int = 8,
    repeats: int = 5,
    device: str = "auto",
    num_threads: int = 1,
    precision: str = "float32",
    seed: int = 0,
) -> dict[str, float]:
    """Measure the training of one round in three ways, interleaved.

    The plain loop is torch alone, written out: no seeds, no parameters in or out. The clients get
    the parameters as arrays and return them, as in a round. All use the same model, optimizer
    and number of steps. The images are random: times do not depend on them.

    Parameters
    ----------
    images : {"mnist", "digits", "cifar10"}, default "mnist"
        Whose model to train; ``cifar10`` is ResNet18 with group normalisation.
    num_clients : int, default 20
        ``K``.
    num_samples : int, default 128
        ``N_VC``.
    batch_size : int, default 8
        ``B``.
    repeats : int, default 5
        Times that each is measured; a first one is not counted.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where to train.
    num_threads : int, default 1
        CPU threads.
    precision : {"float32", "bfloat16"}, default "float32"
        Of training.
    seed : int, default 0
        Of images, model and training.

    Returns
    -------
    dict of str to float
        Medians in seconds of all K trainings: ``plain_loop``, ``one_by_one``, ``cohort``;
        ``overhead``, the median over the clients of what our loop adds to the plain one measured
        beside it, as a share; and ``speedup``, one_by_one over cohort.

    Raises
    ------
    SettingsError
        If the images are unknown, or the cohort cannot be trained together.

    Examples
    --------
    >>> speed = training_speed("digits", num_clients=2, num_samples=8, repeats=1, device="cpu")
    >>> sorted(speed)
    ['cohort', 'one_by_one', 'overhead', 'plain_loop', 'speedup']
    """
    if images not in _SHAPES:
        raise SettingsError(f"images={images!r} is unknown; choose one of {', '.join(_SHAPES)}.")
    shape = _SHAPES[images]
    on = resolve_device(device)
    model = build_model(shape, _NUM_CLASSES, seed, norm="group").to(on)
    plain = build_model(shape, _NUM_CLASSES, seed, norm="group").to(on)
    rng = generator(seed, "training-speed")
    clients = [
        TorchClient(
            model,
            (
                torch.from_numpy(rng.normal(size=(num_samples, *shape)).astype(np.float32)).to(on),
                torch.from_numpy(rng.integers(0, _NUM_CLASSES, num_samples)).to(on),
            ),
            batch_size=batch_size,
            device=device,
            seed=seed,
            alias=str(alias),
            num_threads=num_threads,
            precision=precision,
        )
        for alias in range(num_clients)
    ]
    start = get_parameters(model)
    cohort = Cohort()
    ours: list[list[float]] = []
    plains: list[list[float]] = []
    cohorts: list[float] = []
    with limited_threads(num_threads):
        for _ in range(repeats + 1):
            pairs = [_pair(client, plain, start) for client in clients]
            ours.append([pair[0] for pair in pairs])
            plains.append([pair[1] for pair in pairs])
            cohorts.append(_seconds(lambda: _together(clients, start, cohort)))
    if cohort.failure is not None:
        raise SettingsError(f"These clients cannot train together: {cohort.failure}.")
    shares = np.divide(ours[1:], plains[1:]) - 1
    one_by_one, together = median(map(sum, ours[1:])), median(cohorts[1:])
    return {
        "plain_loop": median(map(sum, plains[1:])),
        "one_by_one": one_by_one,
        "cohort": together,
        "overhead": float(np.median(shares)),
        "speedup": one_by_one / together,
    }


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
    for batch in torch.split(order, client.batch_size):
        optimizer.zero_grad()
        with torch.autocast(
            images.device.type, torch.bfloat16, enabled=client.precision == "bfloat16"
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
