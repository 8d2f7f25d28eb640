"""The lab of dubhe-flwr: compare ways of selecting clients, and study a federation of your own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dubhe_lab.experiments.my_federation import study

__all__ = ["study"]


def __getattr__(name: str) -> Any:
    """Import `study` when it is asked for: the command line starts sooner without it."""
    if name != "study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("dubhe_lab.experiments.my_federation").study
