"""Whom to ask next to be agent, and what may still be spent in an epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Agents:
    """Nodes that may be agent, in the order in which to ask them, and how many were asked.

    After so many attempts a step is given up.

    Examples
    --------
    >>> agents = Agents((5, 4, 6), attempts=2)
    >>> agents.is_exhausted, agents.next, agents.asked().asked().is_exhausted
    (False, 5, True)
    """

    order: tuple[int, ...]
    attempts: int
    num_asked: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether nobody is left to ask."""
        return self.num_asked >= min(self.attempts, len(self.order))

    @property
    def next(self) -> int:
        """The node to ask next."""
        return self.order[self.num_asked]

    def asked(self) -> "Agents":
        """Return the same after the next one was asked."""
        return replace(self, num_asked=self.num_asked + 1)


@dataclass(frozen=True, slots=True)
class Budget:
    """What was spent in an epoch: draws of the nodes, and sums that each agent was given."""

    num_draws: int = 0
    num_sums: Mapping[int, int] = field(default_factory=dict)

    def with_draws(self, number: int) -> "Budget":
        """Return the budget after some draws."""
        return replace(self, num_draws=self.num_draws + number)

    def with_sums(self, agent: int, number: int) -> "Budget":
        """Return the budget after an agent was given some sums."""
        return replace(self, num_sums={**self.num_sums, agent: self.sums_of(agent) + number})

    def sums_of(self, agent: int) -> int:
        """Return how many sums an agent was given."""
        return self.num_sums.get(agent, 0)
