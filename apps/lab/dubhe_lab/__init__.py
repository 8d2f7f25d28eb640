"""The lab of dubhe-flwr: compare selection methods, and study your own federation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dubhe_lab.experiments.my_federation import study

__all__ = ["study"]


def __getattr__(name: str) -> Any:
    """Import `study` on first use, so that the command line starts faster."""
    if name != "study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("dubhe_lab.experiments.my_federation").study
