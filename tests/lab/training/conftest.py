"""What the tests of training share."""

from collections.abc import Iterator

import pytest

from dubhe_lab.training.loop import limited_threads


@pytest.fixture(autouse=True, scope="module")
def _single_thread() -> Iterator[None]:
    """Compute with one thread: models this small only lose by waiting for a second one."""
    with limited_threads(1):
        yield
