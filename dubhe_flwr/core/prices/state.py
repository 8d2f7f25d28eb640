"""The public state of the prices in a registration period, the same at all nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.core.prices.numbers import PriceNumbers
from dubhe_flwr.errors import SettingsError

MEMORY: Final = 6
"""Number of latest exchanges that a fit takes into account."""


@dataclass(frozen=True, slots=True, repr=False)  # the labels
class Position:
    """A client's position: ``w p``, shape (C,), and its weight w."""

    labels: Floats
    weight: float = 1.0

    @classmethod
    def of(cls, distribution: ArrayLike, weight: float = 1.0) -> Self:
        """Return the position of a client from its ``p_l`` in fixed point, shape (C,).

        The weight is its amount of data as a multiple of the clients' mean.
        """
        return cls(weight * np.asarray(distribution, dtype=np.float64) / FIXED_POINT_SCALE, weight)


@dataclass(frozen=True, slots=True)
class PriceState:
    """What all nodes know about prices.

    Parameters
    ----------
    num_sums : int
        Number of sums read so far; the first one is the opening.
    settled : bool
        Whether the point holds the final prices.
    opening : tuple of float, shape (C + 3,)
        Means over all nodes of ``w p``, ``||w p||^2`` and ``w^2``; the standard deviation of their
        noise.
    point : tuple of float, shape (1 + n,)
        ``(a, b)``, and g if nodes differ in weight: where to evaluate next, or the final prices.
    history : tuple of float, shape (MEMORY * 2 (1 + n),)
        For each exchange, newest first: its point, the means over all nodes of ``P w p`` and P, and
        the variance of the noise on the sum of P.
    """

    num_sums: int
    settled: bool
    opening: tuple[float, ...]
    point: tuple[float, ...]
    history: tuple[float, ...]

    @classmethod
    def first(cls, numbers: PriceNumbers) -> Self:
        """Return the state before any sum."""
        width = 1 + numbers.num_slots(opening=False)
        vectors = ((0.0,) * size for size in (numbers.num_classes + 3, width, 2 * MEMORY * width))
        return cls(0, False, *vectors)

    def exchanges(self) -> list[tuple[Floats, Floats, float]]:
        """Return point, means and variance of the latest exchanges, newest first."""
        rows = np.reshape(self.history, (MEMORY, -1))[: max(0, self.num_sums - 1)]
        width = len(self.point)
        return [(row[:width], row[width:-1], float(row[-1])) for row in rows]

    def with_exchange(self, means: Floats, variance: float) -> Self:
        """Return the state after an exchange that gave these means at its point."""
        latest = (*self.point, *means.tolist(), variance)
        history = (*latest, *self.history[: -len(latest)])
        return replace(self, num_sums=self.num_sums + 1, history=history)

    def as_floats(self) -> tuple[float, ...]:
        """Return the state as a flat tuple, whose length depends on the numbers alone."""
        *scalars, opening, point, history = (getattr(self, one.name) for one in fields(self))
        return (*map(float, scalars), *opening, *point, *history)

    @classmethod
    def from_floats(cls, numbers: PriceNumbers, values: Sequence[float]) -> Self:
        """Undo `as_floats`; raises `SettingsError` for anything else."""
        empty = cls.first(numbers)
        if len(values) != len(empty.as_floats()) or not np.all(np.abs(values) < 2.0**53):
            raise SettingsError(f"{len(values)} floats are not a price state; register anew.")
        ends = np.cumsum([2, len(empty.opening), len(empty.point)])
        scalars, *vectors = (tuple(part.tolist()) for part in np.split(np.array(values), ends))
        return cls(max(0, int(scalars[0])), bool(scalars[1]), *vectors)
