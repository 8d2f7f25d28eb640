"""Faults on the way between server and nodes, for tests of apps and strategies that use Dubhe."""

from dubhe_flwr.testing.fault import Fault, FaultKind
from dubhe_flwr.testing.grid import FaultyGrid

__all__ = ["Fault", "FaultKind", "FaultyGrid"]
