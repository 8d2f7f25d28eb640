"""Flower's log is silenced for a while and no longer."""

from logging import INFO, WARNING, getLogger

import pytest

from dubhe_flwr.experiments.engine import flower_log_level


def test_the_log_speaks_again_afterwards() -> None:
    """Also when what ran meanwhile failed."""
    logger = getLogger("flwr")
    before = logger.level
    logger.setLevel(INFO)
    fails_quietly = flower_log_level(WARNING)(_fail)
    with pytest.raises(RuntimeError, match="quiet"):
        fails_quietly()
    assert logger.level == INFO
    logger.setLevel(before)


def _fail() -> None:
    logger = getLogger("flwr")
    quiet = logger.isEnabledFor(WARNING) and not logger.isEnabledFor(INFO)
    raise RuntimeError("quiet" if quiet else "loud")
