"""Tests of the Flower client that trains a torch model; its docstring has an example."""

from typing import Any

import numpy as np
import pytest
import torch
from flwr.common import NDArrays
from torch import nn

from dubhe_lab.training.client import TorchClient
from dubhe_lab.training.loop import isolated_rng, sgd
from dubhe_lab.training.models import get_parameters

IMAGES = np.random.default_rng(7).normal(size=(20, 1, 2, 4)).astype(np.float32)
LABELS = np.arange(20) % 3


def new_model() -> nn.Module:
    """Return a model with dropout, and with buffers that training changes."""
    with isolated_rng(torch.device("cpu"), seed=0):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)
        )


def client_of(first: int, model: nn.Module | None = None, **settings: Any) -> TorchClient:
    """Return a client that holds ten of the samples."""
    own = slice(first, first + 10)
    return TorchClient(
        model or new_model(),
        (IMAGES[own], LABELS[own]),
        device="cpu",
        **{"alias": str(first), "batch_size": 4, "optimizer": sgd(), **settings},
    )


def same(first: NDArrays, second: NDArrays) -> bool:
    """Return whether all arrays are bitwise equal."""
    return all(np.array_equal(*pair) for pair in zip(first, second, strict=True))


START = get_parameters(new_model())


def fitted(client: TorchClient, server_round: int = 1) -> NDArrays:
    """Return the parameters that a client trains from the shared start."""
    return client.fit([array.copy() for array in START], {"server-round": server_round})[0]


def test_evaluate_returns_the_loss_on_the_clients_own_samples() -> None:
    """The loss is that model's own, without dropout, whatever the client trained before."""
    client = client_of(0)
    client.fit(START, {"server-round": 1})
    loss, num_examples, _ = client.evaluate(START, {})
    images, labels = torch.from_numpy(IMAGES[:10]), torch.from_numpy(LABELS[:10])
    with torch.inference_mode():
        logits = new_model().eval()(images)
    assert num_examples == 10
    assert loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-5)


def test_the_order_of_clients_changes_nothing() -> None:
    """Clients get the same results in either order, with a shared model or their own."""
    shared = new_model()
    clients = [client_of(first, shared, optimizer=None) for first in (0, 5)]
    forth = [fitted(client) for client in clients]
    back = [fitted(client) for client in reversed(clients)][::-1]
    alone = [fitted(client_of(first, optimizer=None)) for first in (0, 5)]
    for first, second, third in zip(forth, back, alone, strict=True):
        assert same(first, second)
        assert same(first, third)


@pytest.mark.parametrize(
    "setting",
    [{"seed": 1}, {"alias": "other"}, {"epochs": 2}, {"batch_size": 5}, {"optimizer": sgd(0.2)}],
    ids=str,
)
def test_training_follows_settings_and_round(setting: dict[str, Any]) -> None:
    """Seed, alias and round change the sample order; epochs, batches and optimizer apply."""
    usual = fitted(client_of(0))
    assert same(usual, fitted(client_of(0)))
    assert not same(usual, fitted(client_of(0, **setting)))
    assert not same(usual, fitted(client_of(0), server_round=2))


def test_without_a_round_it_is_round_0() -> None:
    """Without a round in the config, each training has round 0's order of samples."""
    client = client_of(0)
    assert same(client.fit(START, {})[0], fitted(client, server_round=0))


def test_process_wide_random_numbers_are_left_alone() -> None:
    """Training neither uses nor changes torch's and numpy's process-wide random numbers."""
    client = client_of(0)
    np.random.seed(7)  # noqa: NPY002
    undisturbed = np.random.random()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    before = torch.get_rng_state()
    fitted(client)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.random() == undisturbed  # noqa: NPY002


def test_threads_are_limited_while_training() -> None:
    """The number of threads is limited while the model computes, and restored afterwards."""
    seen: list[int] = []
    model = new_model()
    model.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    fitted(client_of(0, model, num_threads=before + 1))
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before
