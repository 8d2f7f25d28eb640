"""What every node knows about prices and keeps between two sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple, Self

import numpy as np

from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.errors import RefusedError

REMEMBERED_SUMS: Final = 6
"""Number of latest sums that a fit takes into account."""

_LARGEST: Final = 2.0**40
"""Larger numbers could overflow for some labels and not for others; a refusal would reveal them."""

Opening = tuple[float, ...]
"""Means over all nodes of ``w p``, ``||w p||^2`` and ``w^2``, then the standard deviation of their
noise."""


class SumAtPoint(NamedTuple):
    """A sum after the opening."""

    point: tuple[float, ...]
    means: tuple[float, ...]  # the means of ``P w p`` and P
    variance: float  # the variance of the noise on the sum of P


@dataclass(frozen=True, slots=True)
class PriceState:
    """What all nodes know about prices; empty before the first sum.

    Parameters
    ----------
    num_sums : int
        Number of sums read so far; the first one is the opening.
    settled : bool
        Whether the point holds the final prices.
    opening : Opening, shape (C + 3,)
        What the first sum says.
    point : tuple of float, shape (n,)
        ``(a, b)``, and g if nodes differ in weight: where to evaluate next, or the final prices.
    history : tuple of SumAtPoint
        The latest sums after the opening, newest first.
    """

    num_sums: int = 0
    settled: bool = False
    opening: Opening = ()
    point: tuple[float, ...] = ()
    history: tuple[SumAtPoint, ...] = ()

    def with_sum(self, means: Floats, variance: float) -> Self:
        """Return the state after a sum that gave these means at its point."""
        latest = SumAtPoint(self.point, tuple(means.tolist()), variance)
        history = (latest, *self.history)[:REMEMBERED_SUMS]
        return replace(self, num_sums=self.num_sums + 1, history=history)

    def renewed(self) -> Self:
        """Return the state from which the next epoch starts; it needs no opening."""
        return replace(self, num_sums=1, settled=False)

    def as_floats(self) -> tuple[float, ...]:
        """Return the state as a flat tuple."""
        sums = chain.from_iterable((*s.point, *s.means, s.variance) for s in self.history)
        return (float(self.num_sums), *self.opening, *self.point, *sums)

    @classmethod
    def from_floats(cls, values: Sequence[float], num_classes: int, width: int) -> Self:
        """Undo `as_floats` for prices that are not settled, with `width` numbers in a point.

        Raises `RefusedError` for anything else.
        """
        opening, point = 1 + num_classes + 3, 1 + num_classes + 3 + width
        history, latest = np.array(values[point:]), width + num_classes + 2
        fits = len(values) >= point and not history.size % latest
        fits = fits and history.size <= REMEMBERED_SUMS * latest  # a node could not store more
        if not (fits and values[0] >= 1.0 and np.all(np.abs(values) <= _LARGEST)):
            raise RefusedError("The saved state does not belong to these prices.")
        sums = tuple(
            SumAtPoint(tuple(row[:width]), tuple(row[width:-1]), row[-1])
            for row in history.reshape(-1, latest).tolist()
        )
        parts = tuple(values[1:opening]), tuple(values[opening:point]), sums
        return cls(int(values[0]), False, *parts)
