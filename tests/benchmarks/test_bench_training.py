"""What our training loop adds to a plain one, and what training together saves."""

import pytest
from bench.training import SpeedSettings, bench_training

pytestmark = pytest.mark.benchmark_only


def test_the_loop_adds_little() -> None:
    """Seeds, arrays in and arrays out take at most 5 % of the MNIST quickstart's training."""
    speed = bench_training(SpeedSettings(images="mnist", repeats=3)).to_dict()
    print(f"\nMNIST: {speed}")  # noqa: T201 - a benchmark says what it found
    assert speed["overhead"] <= 0.05


def test_dense_models_train_faster_together() -> None:
    """With the digits model a step costs the same for one client as for twenty, nearly."""
    speed = bench_training(SpeedSettings(images="digits", repeats=10)).to_dict()
    print(f"\ndigits: {speed}")  # noqa: T201 - a benchmark says what it found
    assert speed["speedup"] >= 2
