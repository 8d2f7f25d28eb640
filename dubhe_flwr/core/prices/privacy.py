"""Bounds what noisy sums reveal of one client, by zero-concentrated differential privacy."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Final, Self

DELTA: Final = 1e-5


def epsilon(num_sums: int, num_classes: int, sigma: float) -> float:
    """Return epsilon, at delta 1e-5, after some sums that one client's labels entered.

    The client adds a vector of length at most 1, P w p with w = 1, to C classes, each with noise
    ``sigma / sqrt(C)``. So a sum costs ``rho = C / (2 sigma^2)`` of zCDP, and the total rho gives
    ``epsilon = rho + 2 sqrt(rho ln(1 / delta))``. For a client with weight w, rho is w^2 times as
    large.

    >>> [round(epsilon(num_sums, 10, 4.0)) for num_sums in (5, 64)]
    [10, 50]
    """
    rho = num_sums * num_classes / (2.0 * sigma**2)
    return rho + 2.0 * sqrt(rho * log(1.0 / DELTA))


@dataclass(frozen=True, slots=True)
class PrivacyBound:
    """The bound for a registration period, and for the whole budget of a client's label counts.

    Parameters
    ----------
    epoch, budget : float
        Epsilon at delta 1e-5.
    num_sums, most_sums : int
        Number of sums that the label counts entered in the period, and may enter in all.
    """

    epoch: float
    budget: float
    num_sums: int
    most_sums: int

    @classmethod
    def of(cls, num_sums: int, most_sums: int, num_classes: int, sigma: float) -> Self:
        """Return the bound; no period has more sums than the budget."""
        num_sums = min(num_sums, most_sums)
        of_epoch, of_budget = (epsilon(n, num_classes, sigma) for n in (num_sums, most_sums))
        return cls(of_epoch, of_budget, num_sums, most_sums)

    def __str__(self) -> str:
        return (
            f"At worst the noisy sums reveal epsilon {self.epoch:.0f} about one client of average "
            f"weight in this registration period ({self.num_sums} sums), and "
            f"{self.budget:.0f} once its labels have entered all the {self.most_sums} sums that "
            "they may, at delta 1e-5. This bound is weak. The attacks that we measured learned "
            "little in the median, and more about some clients; sums for tries and groups are "
            "exact."
        )
