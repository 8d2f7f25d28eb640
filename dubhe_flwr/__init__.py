"""Private, unbiased client selection for Flower: Dubhe (ICPP 2021) and beyond."""

from importlib.metadata import version

from dubhe_flwr.labels import count_labels

__all__ = ["__version__", "count_labels"]

__version__ = version("dubhe-flwr")
