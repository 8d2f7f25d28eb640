"""Private, unbiased client selection for Flower: Dubhe (ICPP 2021) and beyond."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dubhe_flwr.data import count_labels
    from dubhe_flwr.experiments.my_federation import study

__all__ = ["__version__", "count_labels", "study"]

__version__ = version("dubhe-flwr")

_WHERE = {"count_labels": "dubhe_flwr.data", "study": "dubhe_flwr.experiments.my_federation"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: neither is needed to select clients."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
