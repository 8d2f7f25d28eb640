"""Flower's log, which holds the lines of servers and nodes."""

from functools import cache
from logging import getLogger
from typing import Final

logger: Final = getLogger("flwr")  # by name, since the protocol does not import Flower

warn_once: Final = cache(logger.warning)
"""Logs a warning unless the same one was logged before in this run.

The nodes of a simulation share a process, and most of them have the same to say. A server that
begins a run calls `warn_once.cache_clear()`.
"""
