"""The lab of dubhe-flwr: compare selection methods, and study your own federation."""

from dubhe_lab.experiments.my_federation import study

__all__ = ["study"]
