"""Fixtures for the tests of training."""

from collections.abc import Iterator

import pytest

from dubhe_lab.training.loop import limited_threads


@pytest.fixture(autouse=True, scope="module")
def _single_thread() -> Iterator[None]:
    """Compute with one thread: models this small get slower with a second."""
    with limited_threads(1):
        yield
