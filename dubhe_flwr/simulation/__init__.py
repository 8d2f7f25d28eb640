"""Flower apps in one process, without Ray or a SuperLink."""

from dubhe_flwr.simulation.grid import InProcessGrid, run_in_process, run_on_grid
from dubhe_flwr.simulation.known_labels import known_labels

__all__ = ["InProcessGrid", "known_labels", "run_in_process", "run_on_grid"]
