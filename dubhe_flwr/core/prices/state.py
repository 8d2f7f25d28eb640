"""What all nodes know of the prices of a registration period: the same for all, and public."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.core.prices.numbers import PriceNumbers
from dubhe_flwr.errors import SettingsError

MEMORY: Final = 6
"""Exchanges that a fit takes into account, the latest ones."""

_SCALARS: Final = 3


@dataclass(frozen=True, slots=True, repr=False)  # the labels
class Position:
    """Where a client stands: ``w p``, shape (C,), and its weight w."""

    labels: Floats
    weight: float = 1.0

    @classmethod
    def of(cls, distribution: ArrayLike, weight: float = 1.0) -> Self:
        """Return the position of a client from its ``p_l`` in fixed point, shape (C,).

        The weight is its data as a multiple of what clients have on average.
        """
        shares = np.asarray(distribution, dtype=np.float64) / FIXED_POINT_SCALE
        return cls(weight * shares, weight)


@dataclass(frozen=True, slots=True)
class Answer:
    """One exchange: where it was evaluated, and what the nodes answered.

    Parameters
    ----------
    point : ndarray of float, shape (1 + n,)
        ``(a, b)``, and g where nodes differ in weight.
    means : ndarray of float, shape (C,) or (C + 1,)
        Means over all nodes of ``P w p`` and, where they differ in weight, P.
    variance : float
        Of the noise on the sum of P, in clients squared.
    """

    point: Floats
    means: Floats
    variance: float


@dataclass(frozen=True, slots=True)
class PriceState:
    """What is known of prices.

    Parameters
    ----------
    num_sums : int
        Sums read so far; the first one is the opening.
    settled : bool
        Whether the point holds the final prices.
    is_warm : bool
        Whether it began with the prices of the period before: one exchange then settles it.
    opening : tuple of float, shape (C + 3,)
        Means over all nodes of ``w p``, ``||w p||^2`` and ``w^2``; last the standard deviation of
        the noise on a mean.
    point : tuple of float, shape (1 + n,)
        ``(a, b)``, and g where nodes differ in weight: where to evaluate next, or the final prices.
    history : tuple of float, shape (MEMORY * k,)
        The latest answers, newest first, padded with zeros. `answers` reads them.
    """

    num_sums: int
    settled: bool
    is_warm: bool
    opening: tuple[float, ...]
    point: tuple[float, ...]
    history: tuple[float, ...]

    @classmethod
    def first(cls, numbers: PriceNumbers) -> Self:
        """Return the state before any sum."""
        num_classes, width = numbers.num_classes, 1 + numbers.num_classes + numbers.weighted
        history = (0.0,) * (MEMORY * 2 * width)
        return cls(0, False, False, (0.0,) * (num_classes + 3), (0.0,) * width, history)

    def answers(self) -> list[Answer]:
        """Return the latest exchanges, newest first."""
        rows = np.reshape(self.history, (MEMORY, -1))
        width = len(self.point)
        return [
            Answer(row[:width], row[width:-1], float(row[-1]))
            for row in rows[: max(0, self.num_sums - 1)]
        ]

    def with_answer(self, means: Floats, variance: float) -> Self:
        """Return the state with the answer to an exchange at its point."""
        latest = (*self.point, *means.tolist(), variance)
        history = (*latest, *self.history[: -len(latest)])
        return replace(self, num_sums=self.num_sums + 1, history=history)

    def renewed(self, drift: float) -> Self:
        """Return the state with which the next period begins, where clients are slightly others.

        Its single exchange is evaluated at the final prices. The variance of what is known grows by
        the drift, since it was told by the clients of before.
        """
        rows = np.reshape(self.history, (MEMORY, -1)).copy()
        rows[:, -1] += drift
        history = tuple(rows.ravel().tolist())
        return replace(self, settled=False, is_warm=True, history=history)

    def as_floats(self) -> tuple[float, ...]:
        """Return all of it as a flat tuple, whose length depends on the numbers alone."""
        scalars = float(self.num_sums), float(self.settled), float(self.is_warm)
        return (*scalars, *self.opening, *self.point, *self.history)

    @classmethod
    def from_floats(cls, numbers: PriceNumbers, values: Sequence[float]) -> Self:
        """Undo `as_floats`; raises `SettingsError` for anything else."""
        empty = cls.first(numbers)
        if len(values) != len(empty.as_floats()) or not np.all(np.isfinite(values)):
            raise SettingsError(
                f"{len(values)} floats are no state of prices; give {len(empty.as_floats())} "
                "finite ones."
            )
        opening, point = _SCALARS + len(empty.opening), _SCALARS + len(empty.opening)
        point += len(empty.point)
        return cls(
            max(0, int(values[0])),
            bool(values[1]),
            bool(values[2]),
            tuple(values[_SCALARS:opening]),
            tuple(values[opening:point]),
            tuple(values[point:]),
        )
