"""What all tests share."""

import gc
import os

from hypothesis import HealthCheck, settings

# Neither Flower nor Ray calls home from a test.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# No test depends on how fast the machine is.
settings.register_profile("dubhe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dubhe")


def pytest_collection_finish() -> None:
    """Spare what is imported from the collector: Flower runs it after each model."""
    gc.collect()
    gc.freeze()
