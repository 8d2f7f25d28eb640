"""What all tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Neither Flower nor Ray calls home from a test.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# No test depends on how fast the machine is.
settings.register_profile("dubhe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dubhe")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a module on one core, and one after the other what starts Ray or a SuperLink."""
    for item in items:
        end_to_end = any(item.get_closest_marker(name) for name in ("runtime", "deployment"))
        group = "end-to-end" if end_to_end else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
