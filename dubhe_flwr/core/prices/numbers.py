"""The numbers of a node in fixed point, the noise that hides them, and how sums are read."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.errors import RefusedError, SettingsError

LEAST_VOLUNTEERS: Final = 12
"""Below this pool noise would drown the sums: all nodes are equally likely."""

CLIP: Final = 6.0
"""Standard deviations at which a node's own noise is clipped; Gaussian noise exceeds it once in
500 million numbers."""

_UNIT: Final = 2.0**18
"""Steps of a number in one client. Rounding 2000 nodes moves a sum by at most .004 clients."""

_LARGEST_SIGMA: Final = 4.0
_LARGEST_SHARE: Final = 0.632
"""Of sigma at one node: ``min(4, N/20) / sqrt(N/2)`` is largest at N = 80."""


def noise_scale(num_volunteers: float) -> float:
    """Return sigma, the standard deviation of the noise on a sum of probabilities.

    >>> [noise_scale(volunteers) for volunteers in (12, 36, 100)]
    [1.0, 3.0, 4.0]
    """
    return min(_LARGEST_SIGMA, max(1.0, num_volunteers / LEAST_VOLUNTEERS))


@dataclass(frozen=True)
class PriceNumbers:
    """A node's numbers: ``w p``, ``||w p||^2`` and ``w^2`` at the opening, then ``P w p`` and P.

    P and ``w^2`` are sent only where nodes differ in weight; otherwise the C classes add up to
    them. So the noise on the sum of P is sigma in both cases.

    Parameters
    ----------
    num_classes : int
        ``C``, at least 2.
    max_clients : int
        Largest number of nodes in a sum.
    largest_weight : float (default: 1)
        Largest weight of a node; with 1 all nodes weigh the same.
    noise : float, optional (default: `noise_scale` of the pool)
        Sigma; 0 turns the noise off.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> numbers = PriceNumbers(num_classes=10, max_clients=2000)
    >>> [(numbers.num_slots(opening=at), numbers.max_value(opening=at)) for at in (True, False)]
    [(11, 5505024), (10, 890838)]
    """

    num_classes: int
    max_clients: int
    largest_weight: float = 1.0
    noise: float | None = None

    def __post_init__(self) -> None:
        if not (self.num_classes >= 2 and self.max_clients >= 1 and self.largest_weight >= 1.0):
            raise SettingsError(
                f"num_classes={self.num_classes} must be at least 2, max_clients="
                f"{self.max_clients} and largest_weight={self.largest_weight} at least 1."
            )
        if self.noise is not None and not 0.0 <= self.noise <= 1000.0:
            raise SettingsError(f"noise={self.noise} must be from 0 to 1000.")

    @property
    def weighted(self) -> bool:
        """Whether nodes differ in weight."""
        return self.largest_weight > 1.0

    def num_slots(self, *, opening: bool) -> int:
        """Return how many numbers a node gives, at the opening or at a later exchange."""
        return self.num_classes + opening + self.weighted

    def sigma(self, num_volunteers: float) -> float:
        """Return the standard deviation of the noise on the sum of P, in clients."""
        return noise_scale(num_volunteers) if self.noise is None else self.noise

    def deviations(
        self, num_clients: int, num_volunteers: float, *, opening: bool
    ) -> Floats:
        """Return the standard deviation of the noise on each sum in clients, shape (num_slots,).

        A class has ``sigma / sqrt(C)``, P sigma. At the opening, where P is as if it were V / N for
        all, every number has N / V times the noise of a class.
        """
        sigma = self.sigma(num_volunteers)
        of_class = sigma / self.num_classes**0.5
        deviations = np.full(self.num_slots(opening=opening), of_class)
        if opening:
            deviations *= num_clients / num_volunteers
        elif self.weighted:
            deviations[-1] = sigma
        return deviations

    def draw_noise(
        self,
        num_clients: int,
        num_volunteers: float,
        share: float,
        rng: np.random.Generator,
        *,
        opening: bool,
    ) -> NDArray[np.int64]:
        """Return noise for one node's numbers, or a committee member's, shape (num_slots,).

        Parameters
        ----------
        num_clients, num_volunteers : int, float
            N and V, of all who joined.
        share : float
            Share of the variance: 1 for a committee member, for a node 1 / (fewest nodes that the
            sum may cover), which are at least half of all.
        rng : numpy.random.Generator
            Of which only uniform numbers are taken, two for each number.

        Returns
        -------
        ndarray of int64
            Gaussian, clipped at `CLIP` standard deviations.
        """
        uniform = rng.random((2, self.num_slots(opening=opening)))
        normal = np.sqrt(-2.0 * np.log1p(-uniform[0])) * np.cos(2.0 * np.pi * uniform[1])
        scale = self.deviations(num_clients, num_volunteers, opening=opening) * share**0.5 * _UNIT
        return np.rint(np.clip(normal, -CLIP, CLIP) * scale).astype(np.int64)

    def max_value(self, *, opening: bool) -> int:
        """Return the largest number that a node may put in a slot."""
        return int(np.ceil(self.largest_weight * _UNIT)) + 2 * self._room[opening]

    @cached_property
    def _room(self) -> tuple[int, int]:
        """Offset of the numbers of an exchange and of the opening: room for negative noise."""
        per_client = CLIP / self.num_classes**0.5 * _UNIT
        in_sigma = _LARGEST_SHARE if self.noise is None else self.noise / 10**0.5
        in_opening = 1.0 if self.noise is None else self.noise
        classes = self.num_classes**0.5 if self.weighted else 1.0
        opening = per_client * in_opening / LEAST_VOLUNTEERS * (2.0 * self.max_clients) ** 0.5
        return int(np.ceil(per_client * in_sigma * classes)), int(np.ceil(opening))

    def encode(
        self, values: ArrayLike, noise: NDArray[np.int64] | None = None, *, opening: bool
    ) -> NDArray[np.int64]:
        """Return a node's numbers with its noise, shape (num_slots,), from 0 to `max_value`."""
        units = np.rint(np.clip(values, 0.0, self.largest_weight) * _UNIT).astype(np.int64)
        units += self._room[opening] + (0 if noise is None else noise)
        return np.clip(units, 0, self.max_value(opening=opening))

    def means(self, sums: ArrayLike, num_clients: int, *, opening: bool) -> Floats:
        """Return the mean of each number over N nodes, noise included, shape (num_slots,).

        Raises
        ------
        RefusedError
            If no nodes can have given such sums; it does not say why.
        """
        units = np.asarray(sums)
        if units.shape != (self.num_slots(opening=opening),) or units.dtype.kind not in "iu":
            raise refusal()
        means = (units.astype(np.float64) / num_clients - self._room[opening]) / _UNIT
        if np.abs(means).max() > self.largest_weight + 2 * self._room[opening] / _UNIT:
            raise refusal()
        return np.asarray(means)


def refusal() -> RefusedError:
    """Return the one error that every unfit sum raises."""
    return RefusedError("Sums for prices are not those of nodes; register anew.")
