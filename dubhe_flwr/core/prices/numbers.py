"""Encodes a node's numbers as integers, with room for the noise that hides them."""

from dataclasses import dataclass
from math import ceil
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.prices.newton import Floats

LEAST_VOLUNTEERS: Final = 12
"""Noise would drown sums that are taken for fewer volunteers, so there are no prices."""

UNIT: Final = 2.0**18
"""Fixed-point steps per client. Rounding moves a sum over 2000 nodes by less than .004 clients."""

ROOM: Final = 6.0
"""Deviations of its own noise for which a node leaves room; it clips two numbers in a billion."""

_LARGEST_SHARE: Final = 0.1**0.5
"""Largest deviation of one node's noise, relative to sigma: ``1 / sqrt(N / 2)`` at N = 20."""

_FEWEST: Final = 80
"""Nodes leave room for noise as if there were at least 80 of them, because the members' noise does
not shrink when there are fewer."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Numbers from 0 to `largest` clients, as integers that leave room for noise on both sides.

    Parameters
    ----------
    largest : float
        Largest weight of a node.
    room : int
        Added to each number, so that noise does not make it negative.
    """

    largest: float
    room: int

    @classmethod
    def of(
        cls, num_classes: int, max_clients: int, largest: float, sigma: float, *, opening: bool
    ) -> Self:
        """Return the encoding of a sum; sigma is the standard deviation of the noise on P.

        After the opening, P has sqrt(C) times the noise of a class.
        """
        of_p = ROOM * UNIT * sigma
        of_class = of_p / num_classes**0.5
        if opening:
            spread = (2.0 * max(max_clients, _FEWEST)) ** 0.5
            return cls(largest, ceil(of_class / LEAST_VOLUNTEERS * spread))
        return cls(largest, ceil((of_p if largest > 1.0 else of_class) * _LARGEST_SHARE))

    @property
    def max_value(self) -> int:
        """The largest integer that a node may send."""
        return ceil(self.largest * UNIT) + 2 * self.room

    def encode(self, values: Floats, noise: ArrayLike) -> NDArray[np.int64]:
        """Return a node's numbers plus its noise; the noise is given in fixed-point steps."""
        units = np.rint(np.clip(values, 0.0, self.largest) * UNIT) + self.room
        return np.clip(units + noise, 0, self.max_value).astype(np.int64)

    def means(self, sums: NDArray[np.int64], num_clients: int) -> Floats:
        """Return the means over N nodes, noise included, from the sums of their integers."""
        return (sums / num_clients - self.room) / UNIT
