"""The paper, reproduced: cells that are measured once, and what each experiment makes of them."""

from dubhe_flwr.experiments.reproduction.cell import Cell, Resources
from dubhe_flwr.experiments.reproduction.methods import Method
from dubhe_flwr.experiments.reproduction.options import Options
from dubhe_flwr.experiments.reproduction.store import CellStore

__all__ = ["Cell", "CellStore", "Method", "Options", "Resources"]
