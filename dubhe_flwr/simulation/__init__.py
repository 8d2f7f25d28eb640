"""Flower apps in one process, without Ray or a SuperLink."""

from dubhe_flwr.simulation.grid import InProcessGrid, run_in_process, run_on_grid

__all__ = ["InProcessGrid", "run_in_process", "run_on_grid"]
