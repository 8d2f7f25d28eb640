"""One small comparison, run once for all tests that look at its results."""

import pytest
from small_comparison import run, small_settings

from dubhe_flwr.report.results import ComparisonResults


@pytest.fixture(scope="session")
def results() -> ComparisonResults:
    """Return what all three methods reach in `small_settings()`."""
    return run(small_settings())
