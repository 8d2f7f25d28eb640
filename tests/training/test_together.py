"""Whoever can train together does; the others, and all after a failure, train alone."""

from typing import Any

import numpy as np
import pytest
from flwr.common import NDArrays
from torch import Tensor, nn

from dubhe_flwr.simulation.meeting import hold_meeting
from dubhe_flwr.training import Cohort, TorchClient, build_model, get_parameters, sgd
from dubhe_flwr.training import together as module
from dubhe_flwr.training.cohort import train_cohort as train_together

RNG = np.random.default_rng(7)
IMAGES = RNG.normal(size=(40, 1, 8, 8)).astype(np.float32)
LABELS = RNG.integers(0, 3, 40)


def client_of(
    alias: int, model: nn.Module | None = None, count: int = 8, **given: Any
) -> TorchClient:
    """Return a client with some of the samples."""
    own = slice(alias, alias + count)
    return TorchClient(
        model or build_model("digits", 3, seed=0),
        (IMAGES[own], LABELS[own]),
        device="cpu",
        **{"alias": str(alias), "batch_size": 4, "optimizer": sgd(), "num_threads": 1, **given},
    )


def fitted(clients: list[TorchClient], cohort: Cohort | None) -> list[tuple[NDArrays, float]]:
    """Return parameters and loss of all clients, which begin with the same parameters."""
    start = get_parameters(build_model("digits", 3, seed=1))

    def handle(client: TorchClient) -> tuple[NDArrays, float]:
        parameters, _, metrics = client.fit(start[: len(start)], {"server-round": 1})
        return parameters, float(metrics["loss"])

    if cohort is None:
        return [handle(client) for client in clients]
    return hold_meeting([lambda client=client: handle(client) for client in clients], cohort)  # type: ignore[misc]


def assert_same(first: list[tuple[NDArrays, float]], second: list[tuple[NDArrays, float]]) -> None:
    """Compare within float tolerance."""
    for (arrays, loss), (others, other_loss) in zip(first, second, strict=True):
        assert loss == pytest.approx(other_loss, rel=1e-5)
        for array, other in zip(arrays, others, strict=True):
            np.testing.assert_allclose(array, other, atol=1e-6)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of how many trained together, which grows with each cohort."""
    seen: list[int] = []

    def train_cohort(model: nn.Module, states: Any, *args: Any, **named: Any) -> Any:
        seen.append(len(states))
        return train_together(model, states, *args, **named)

    monkeypatch.setattr(module, "train_cohort", train_cohort)
    return seen


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "a model each"])
def test_clients_end_where_they_end_alone(sizes: list[int], shared: bool) -> None:
    """Results do not depend on who trains them, and the model holds what was trained last."""
    model = build_model("digits", 3, seed=0) if shared else None
    clients = [client_of(alias, model) for alias in range(5)]
    together = fitted(clients, Cohort())
    assert all(map(np.array_equal, clients[-1].get_parameters({}), together[-1][0]))
    assert_same(together, fitted(clients, None))
    assert sizes == [5]


def test_those_that_differ_train_apart(sizes: list[int]) -> None:
    """Samples, settings, optimizers and models make groups; whoever is left over is alone."""
    layers = list(build_model("digits", 3, seed=0).children())
    other = nn.Sequential(*layers[:2], nn.LeakyReLU(0.3), layers[3])
    frozen = build_model("digits", 3, seed=0)
    next(frozen.parameters()).requires_grad_(False)
    clients = [
        *(client_of(alias) for alias in range(3)),
        *(client_of(alias, count=9) for alias in range(2)),
        *(client_of(alias, optimizer=sgd(0.2)) for alias in range(2)),
        *(client_of(alias, other) for alias in range(2)),
        *(client_of(alias, frozen) for alias in range(2)),
        client_of(0, epochs=2),
    ]
    assert_same(fitted(clients, Cohort()), fitted(clients, None))
    assert sizes == [3, 2, 2, 2, 2]


class Unsteady(nn.Sequential):
    """Computes what depends on its values."""

    def forward(self, images: Tensor) -> Tensor:
        """Choose by a value."""
        logits: Tensor = super().forward(images)  # type: ignore[no-untyped-call]
        return logits if logits.sum() > 0 else 2 * logits


def test_after_a_failure_all_train_alone(
    sizes: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The first attempt costs nobody its training, and there is no second one."""
    model = Unsteady(*build_model("digits", 3, seed=0).children())
    clients, cohort = [client_of(alias, model) for alias in range(3)], Cohort()
    for _ in range(2):
        for one, other in zip(fitted(clients, cohort), fitted(clients, None), strict=True):
            assert all(np.array_equal(*pair) for pair in zip(one[0], other[0], strict=True))
    assert sizes == [3]
    assert cohort.failure is not None
    assert len(caplog.records) == 1
    assert "one by one from now on" in caplog.text


def test_the_log_says_why_they_train_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A reason of the cohort is told in its own words, without the name of an error."""
    layers = build_model("digits", 3, seed=0).children()
    model, cohort = nn.Sequential(*layers, nn.Dropout(0.5, inplace=True)), Cohort()
    fitted([client_of(alias, model) for alias in range(3)], cohort)
    assert cohort.failure == "A call of dropout changes from step to step, or works in place."
    assert caplog.messages == [f"dubhe: clients train one by one from now on ({cohort.failure})"]
