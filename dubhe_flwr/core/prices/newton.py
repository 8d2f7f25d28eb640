"""Newton's method for the two convex problems of prices: reweighting and the dual."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Curve = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Maps z to h(z) and its first two derivatives, each of shape (M,)."""

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 20
_CLOSE: Final = 1e-14
"""The first step with a decrement this small is the last; it squares an error of about 1e-7."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimising ``sum shares h(rows v - costs) + linear . v + ridge . v^2 / 2`` over v.

    h is convex, the objective is of order 1, v has shape (n,), and rows has shape (M, n).

    >>> square = lambda z: (z**2 / 2, z, np.ones_like(z))
    >>> linear, one = np.array([-2.0, 0.0]), np.ones(2)
    >>> problem = Problem(np.eye(2), np.zeros(2), one, square, linear, ridge=one)
    >>> problem.minimum(np.zeros(2), reach=9.0).tolist()
    [1.0, 0.0]
    """

    rows: Floats
    costs: Floats
    shares: Floats
    curve: Curve  # h, its derivative and its second derivative
    linear: Floats
    ridge: Floats

    def value(self, at: Floats) -> float:
        """Return the objective at v."""
        return float(self.shares @ self.curve(self.rows @ at - self.costs)[0]) + self._rest(at)

    def _rest(self, at: Floats) -> float:
        return float(self.linear @ at + self.ridge @ at**2 / 2)

    def minimum(self, start: Floats, reach: float) -> Floats:
        """Return the v that minimises the objective.

        Each of at most 100 steps changes no component of ``rows v`` by more than `reach`.
        """
        rows, at, values = self.rows, start, self.rows @ start - self.costs
        height, first, second = self.curve(values)
        for _ in range(_MOST_STEPS):
            gradient = self.shares * first @ rows + self.linear + self.ridge * at
            weighted = rows * np.sqrt(self.shares * second)[:, None]
            hessian = weighted.T @ weighted + np.diag(self.ridge)
            scale = np.diag(hessian) ** -0.5
            step = -scale * np.linalg.solve(hessian * scale[:, None] * scale, scale * gradient)
            decrement = -float(gradient @ step)
            if not decrement > _CLOSE:
                return np.asarray(at + step)
            moves, before = rows @ step, self.shares @ height + self._rest(at)
            part = min(1.0, reach / max(float(np.abs(moves).max()), 1e-300))
            for _ in range(_MOST_HALVINGS):
                ahead, found = at + part * step, values + part * moves
                height, first, second = self.curve(found)
                after = self.shares @ height + self._rest(ahead)
                if after <= before - 1e-4 * part * decrement + 1e-13 * abs(before):
                    break
                part /= 2
            at, values = ahead, found
        return at
