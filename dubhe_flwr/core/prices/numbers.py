"""A node's numbers in fixed point, the noise that hides them, and how to read their sums."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.core.randomness import CLIP, gaussian
from dubhe_flwr.errors import RefusedError, SettingsError

Integers = NDArray[np.int64]

LEAST_VOLUNTEERS: Final = 12
"""With a smaller pool, noise would drown the sums, so all nodes are equally likely instead."""

LEAST_NOISE: Final = 0.5
"""With less noise, label counts could not enter a single sum."""

UNIT: Final = 2.0**18
"""Fixed-point steps per client. Rounding moves a sum over 2000 nodes by less than .004 clients."""

_LARGEST_SHARE: Final = 0.64
"""Largest deviation of one node's noise, in clients: ``min(4, N / 20) / sqrt(N / 2)`` at N = 80."""


def noise_scale(num_volunteers: float) -> float:
    """Return sigma, the standard deviation of the noise on a sum of probabilities.

    >>> [noise_scale(volunteers) for volunteers in (12, 36, 100)]
    [1.0, 3.0, 4.0]
    """
    return min(4.0, max(1.0, num_volunteers / LEAST_VOLUNTEERS))


@dataclass(frozen=True)
class PriceNumbers:
    """A node's numbers: ``w p``, ``||w p||^2`` and ``w^2`` at the opening, later ``P w p`` and P.

    ``w^2`` and P are sent only if nodes differ in weight. Otherwise the C classes of ``P p`` add up
    to P, and their noise to sigma.

    Parameters
    ----------
    num_classes, max_clients : int
        ``C``, at least 2, and the largest number of nodes in a sum.
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
    >>> numbers.num_slots(opening=True), numbers.num_slots(opening=False)
    (11, 10)
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
        if self.noise and not LEAST_NOISE <= self.noise <= 1000.0:
            raise SettingsError(
                f"noise={self.noise} must be from {LEAST_NOISE:g} to 1000, or 0 in a simulation."
            )

    @property
    def weighted(self) -> bool:
        """Whether nodes differ in weight."""
        return self.largest_weight > 1.0

    def num_slots(self, *, opening: bool) -> int:
        """Return how many numbers a node sends, at the opening or in a later exchange."""
        return self.num_classes + opening + self.weighted

    def max_value(self, *, opening: bool) -> int:
        """Return the largest number that a node may put in a slot."""
        return int(np.ceil(self.largest_weight * UNIT)) + 2 * self._room[opening]

    def sigma(self, num_volunteers: float) -> float:
        """Return the standard deviation of the noise on the sum of P, in clients."""
        return noise_scale(num_volunteers) if self.noise is None else self.noise

    def deviations(self, num_clients: int, num_volunteers: float, *, opening: bool) -> Floats:
        """Return the standard deviation of the noise on each sum, in clients, shape (num_slots,).

        Each class has ``sigma / sqrt(C)``, and P has sigma. At the opening every number has N / V
        times the noise of a class, since clients enter it whole, not times a P of V / N on average.
        """
        deviations = np.full(self.num_slots(opening=opening), self.sigma(num_volunteers))
        deviations[: None if opening else self.num_classes] /= self.num_classes**0.5
        if opening:
            deviations *= num_clients / num_volunteers
        return deviations

    def draw_noise(self, deviations: Floats, share: float, rng: np.random.Generator) -> Integers:
        """Return the Gaussian noise that one party adds, shape (num_slots,), clipped at `CLIP`.

        `share` is this party's share of the variance: 1 for a committee member, and without a
        committee 1 / (fewest nodes in the sum, at least half of all) for a node. Each noise value
        takes two uniform numbers of the generator.
        """
        return gaussian(deviations * (share**0.5 * UNIT), rng.random((2, deviations.size)))

    @cached_property
    def _room(self) -> tuple[int, int]:
        """Offsets, in an exchange and at the opening, that leave room for a node's noise."""
        of_class = CLIP * UNIT / self.num_classes**0.5
        share = _LARGEST_SHARE if self.noise is None else self.noise * 0.1**0.5  # N is 20 or more
        later = (CLIP * UNIT if self.weighted else of_class) * share
        part = (1.0 if self.noise is None else self.noise) / LEAST_VOLUNTEERS  # sigma / V
        return int(np.ceil(later)), int(np.ceil(of_class * part * (2.0 * self.max_clients) ** 0.5))

    def encode(self, values: Floats, noise: Integers | int = 0, *, opening: bool) -> Integers:
        """Return a node's numbers with its noise, shape (num_slots,), from 0 to `max_value`."""
        units = np.rint(np.clip(values, 0.0, self.largest_weight) * UNIT) + self._room[opening]
        limited = np.clip(units + noise, 0, self.max_value(opening=opening))
        return np.asarray(limited, dtype=np.int64)

    def means(self, sums: ArrayLike, num_clients: int, slack: Floats, *, opening: bool) -> Floats:
        """Return the mean of each number over N nodes, noise included, shape (num_slots,).

        Raises `RefusedError`, without detail, if a mean lies outside the range of a node's numbers
        by more than the slack, shape (num_slots,).
        """
        units = np.asarray(sums)
        if units.shape != slack.shape or units.dtype.kind not in "iu":
            raise refusal()
        means = (units.astype(np.float64) / num_clients - self._room[opening]) / UNIT
        if np.any(means < -slack) or np.any(means > self.largest_weight + slack):
            raise refusal()
        return np.asarray(means)


def refusal() -> RefusedError:
    """Return the one error that every unfit sum raises."""
    return RefusedError("No nodes can have sent these sums for prices; register anew.")
