"""Newton's method for the two convex problems of prices: the dual, and calibration."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Curve = Callable[[Floats], tuple[float, Floats, Floats]]
"""From z, shape (M,), to ``sum h(z)`` and the first and second derivatives of h, shape (M,)."""

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 20
_CLOSE: Final = 1e-14
"""Decrement at which the next full step is the last one: it squares an error of about 1e-7."""


def minimum(
    rows: Floats, curve: Curve, linear: Floats, ridge: Floats, start: Floats, reach: float
) -> Floats:
    """Return the v that minimises ``sum h(rows v) + linear . v + sum ridge v^2 / 2``.

    The work is bounded: at most 100 steps, each with at most 20 halvings.

    Parameters
    ----------
    rows : ndarray of float, shape (M, n)
    curve : callable
        A convex h with its derivatives; the objective should be of order 1.
    linear, ridge, start : ndarray of float, shape (n,)
        The ridge is positive.
    reach : float
        Largest change of any component of ``rows v`` in one step.

    Examples
    --------
    >>> square = lambda z: (float(z @ z) / 2, z, np.ones_like(z))
    >>> minimum(np.eye(2), square, np.array([-2.0, 0.0]), np.ones(2), np.zeros(2), 9.0).tolist()
    [1.0, 0.0]
    """
    at, values = start, rows @ start
    total, first, second = curve(values)
    for _ in range(_MOST_STEPS):
        gradient = first @ rows + linear + ridge * at
        hessian = (rows * second[:, None]).T @ rows
        hessian[np.diag_indices_from(hessian)] += ridge
        scale = 1.0 / np.sqrt(np.diag(hessian))  # unit diagonal: the best condition for little
        step = -scale * np.linalg.solve(hessian * scale[:, None] * scale, scale * gradient)
        decrement = -float(gradient @ step)
        if not decrement > _CLOSE:
            return np.asarray(at + step)
        moves = rows @ step
        part = min(1.0, reach / float(np.abs(moves).max()))
        before = total + float(linear @ at + ridge @ at**2 / 2)
        for _ in range(_MOST_HALVINGS):
            ahead = at + part * step
            total, first, second = curve(values + part * moves)
            after = total + float(linear @ ahead + ridge @ ahead**2 / 2)
            if after <= before - 1e-4 * part * decrement + 1e-13 * abs(before):
                break
            part /= 2
        at, values = ahead, values + part * moves
    return at
