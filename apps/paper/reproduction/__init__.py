"""The paper, reproduced: cells that are measured once, and what each experiment makes of them."""

from reproduction.cell import Cell, Resources
from reproduction.methods import Method
from reproduction.options import Options
from reproduction.store import CellStore

__all__ = ["Cell", "CellStore", "Method", "Options", "Resources"]
