"""Prices that read sums even with the few nodes of the tests with accidents."""

from dataclasses import dataclass
from typing import ClassVar

from dubhe_flwr.rules import Frame, Population, Prices, register_rule

NUM_SUMS = 3


@register_rule
@dataclass(frozen=True)
class Eager(Prices):
    """Prices from at most three sums over eight nodes, without noise."""

    noise: float = 0.0

    name: ClassVar[str] = f"prices of few, of {__name__}"  # pytest imports this module twice

    def can_continue(self, population: Population) -> bool:
        """Return False: the last sum need not settle these prices, so each epoch starts afresh."""
        return False

    def num_sums(self, frame: Frame) -> int:
        """Return one sum more than a search for thresholds reads."""
        return NUM_SUMS
