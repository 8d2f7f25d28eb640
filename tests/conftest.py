"""What all tests share."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from dubhe_flwr.protocol.log import warn_once

# Neither Flower nor Ray calls home from a test.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# Ray's workers do not repeat the command line of `uv run`. Flower sets this too, but a test may
# import Ray before Flower's simulation.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")

# Test processes share the cores: more threads of numpy in each only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test depends on how fast the machine is.
settings.register_profile("dubhe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few-examples", settings.get_profile("dubhe"), max_examples=10)
settings.load_profile("dubhe")


@pytest.fixture(autouse=True)
def warnings_of_this_test() -> None:
    """Let each test see the warnings that an earlier one saw."""
    warn_once.cache_clear()


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a study of one's own federation select for a tenth of its rounds."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._ROUNDS", 20)
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._SWEPT_ROUNDS", 10)
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._REGISTRATIONS", 4)


def pytest_collection_finish() -> None:
    """Let the collector pass over what is imported: Flower calls it after each ArrayRecord."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
