"""What the adapters for Flower's two strategy APIs and for its ClientApps share."""

from dubhe_flwr.adapter.arguments import DubheArguments, Options
from dubhe_flwr.adapter.selecting import Selecting, SelectingByDubhe

__all__ = ["DubheArguments", "Options", "Selecting", "SelectingByDubhe"]
