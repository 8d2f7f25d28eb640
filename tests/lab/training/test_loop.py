"""Tests of local training and evaluation."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dubhe_flwr.errors import SettingsError
from dubhe_lab.training.loop import evaluate, sgd, train
from dubhe_lab.training.models import get_parameters


class Recorder(nn.Module):
    """Records the images of each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)
        self.batches: list[list[float]] = []

    def forward(self, images: Tensor) -> Tensor:
        self.batches.append(images.flatten().tolist())
        return torch.as_tensor(self.layer(images))


def samples(count: int) -> tuple[Tensor, Tensor]:
    """Return one-pixel images 0, 1, ... and alternating labels."""
    return torch.arange(float(count))[:, None], torch.arange(count) % 2


def with_dropout() -> nn.Module:
    """Return a model with fixed parameters that drops half of its inputs."""
    layer = nn.Linear(8, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, 16).reshape(2, 8))
        layer.bias.zero_()
    return nn.Sequential(nn.Dropout(0.5), layer)


@given(count=st.integers(1, 30), epochs=st.integers(1, 3), batch_size=st.integers(1, 12))
def test_each_pass_sees_every_sample_once(count: int, epochs: int, batch_size: int) -> None:
    """Each epoch shuffles all samples and cuts them into batches of the given size."""
    model = Recorder()
    rng = np.random.default_rng(7)
    train(model, *samples(count), generator=rng, epochs=epochs, batch_size=batch_size)
    steps = -(-count // batch_size)
    assert len(model.batches) == epochs * steps
    for epoch in range(epochs):
        batches = model.batches[epoch * steps : (epoch + 1) * steps]
        assert sorted(pixel for batch in batches for pixel in batch) == list(range(count))
        assert all(len(batch) == batch_size for batch in batches[:-1])


def test_training_equals_a_plain_loop() -> None:
    """Parameters and loss equal the results of a hand-written loop."""
    images, labels = torch.randn(24, 8), torch.arange(24) % 2
    ours, plain = nn.Linear(8, 2), nn.Linear(8, 2)
    plain.load_state_dict(ours.state_dict())
    how: dict[str, Any] = {"epochs": 2, "batch_size": 8, "optimizer": sgd(0.3)}
    loss = train(ours, images, labels, generator=np.random.default_rng(7), **how)

    generator = np.random.default_rng(7)
    generator.integers(2**63)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.3)
    losses, samples = [], list[float]()
    for _ in range(2):
        for batch in torch.from_numpy(generator.permutation(24)).reshape(3, 8):
            optimizer.zero_grad()
            step_loss = cross_entropy(plain(images[batch]), labels[batch])
            of_samples = cross_entropy(plain(images[batch]), labels[batch], reduction="none")
            samples += of_samples.tolist()
            step_loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(step_loss.item())
    assert torch.equal(ours.weight, plain.weight)
    assert loss.mean == pytest.approx(np.mean(losses))
    assert loss.rms == pytest.approx(np.sqrt(np.mean(np.square(samples))), rel=1e-5)


def test_dropout_follows_the_generator() -> None:
    """Dropout follows the generator, and is still active after an evaluation."""
    images, labels = torch.ones(16, 8), torch.zeros(16, dtype=torch.int64)
    results: list[np.ndarray] = []
    for seed in (1, 1, 2):
        model = with_dropout().eval()
        train(model, images, labels, generator=np.random.default_rng(seed), optimizer=sgd())
        results.append(get_parameters(model)[0])
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_default_optimizer_is_the_papers() -> None:
    """The default is Adam, whose first step is as long as its learning rate, 1e-4."""
    model = nn.Linear(8, 2)
    before = get_parameters(model)[0]
    train(model, torch.randn(4, 8), torch.tensor([0, 1, 0, 1]), generator=np.random.default_rng(7))
    assert np.abs(get_parameters(model)[0] - before) == pytest.approx(1e-4, rel=0.01)


@given(count=st.integers(1, 40), batch_size=st.integers(1, 50))
def test_evaluation_does_not_depend_on_batches(count: int, batch_size: int) -> None:
    """Loss and accuracy do not depend on the batch size, and dropout is off."""
    generator = torch.Generator().manual_seed(count)
    images = torch.randn(count, 8, generator=generator)
    labels = torch.randint(0, 2, (count,), generator=generator)
    model = with_dropout()
    logits = model[1](images).detach()  # type: ignore[index]
    found = evaluate(model, images, labels, batch_size=batch_size)
    right = logits.argmax(1) == labels
    assert found.loss == pytest.approx(float(cross_entropy(logits, labels)), rel=1e-4)
    assert found.accuracy == pytest.approx(float(right.float().mean()))
    recalls = [float(right[labels == label].float().mean()) for label in set(labels.tolist())]
    assert found.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert found.worst_recall == pytest.approx(min(recalls))


@pytest.mark.parametrize(
    ("count", "given", "sentence"),
    [
        (0, {}, "0 samples, epochs=1"),
        (4, {"epochs": 0}, "4 samples, epochs=0"),
        (4, {"batch_size": 0}, "batch_size=0"),
    ],
)
def test_invalid_arguments_are_refused(count: int, given: dict[str, Any], sentence: str) -> None:
    """Training refuses zero samples, epochs or batch size; evaluation refuses zero samples."""
    with pytest.raises(SettingsError, match=sentence):
        train(nn.Linear(1, 2), *samples(count), generator=np.random.default_rng(7), **given)
    with pytest.raises(SettingsError, match="Evaluation needs at least one sample"):
        evaluate(nn.Linear(1, 2), *samples(0))
