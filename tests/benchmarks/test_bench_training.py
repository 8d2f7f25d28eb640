"""What our training loop adds to a plain one, and what training together saves."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dubhe_flwr.experiments.training_speed import training_speed

pytestmark = pytest.mark.benchmark_only


def test_the_loop_adds_little(benchmark: BenchmarkFixture) -> None:
    """Seeds, arrays in and arrays out take at most 5 % of the MNIST quickstart's training."""
    speed = benchmark.pedantic(lambda: training_speed("mnist", repeats=3))
    benchmark.extra_info.update(speed)
    assert speed["overhead"] <= 0.05


def test_dense_models_train_faster_together(benchmark: BenchmarkFixture) -> None:
    """With the digits model a step costs the same for one client as for twenty, nearly."""
    speed = benchmark.pedantic(lambda: training_speed("digits", num_samples=32, repeats=10))
    benchmark.extra_info.update(speed)
    assert speed["speedup"] >= 3
