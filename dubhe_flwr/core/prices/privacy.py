"""What noisy sums tell of one client at worst: zero-concentrated differential privacy."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Final, Self

DELTA: Final = 1e-5


def epsilon(num_sums: int, num_classes: int, sigma: float) -> float:
    """Return epsilon, at delta 1e-5, of some sums that the labels of one client entered.

    The client adds a vector of length 1 at most, P w p with w = 1, to C classes that each have
    noise of ``sigma / sqrt(C)``. So a sum costs ``rho = C / (2 sigma^2)`` of zCDP, and rho of all
    sums together is ``epsilon = rho + 2 sqrt(rho ln(1 / delta))``. A client that weighs w costs
    w^2 times that rho.

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
        How many sums the label counts entered in the period, and how many they may enter in all.
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
            f"At worst the noisy sums tell epsilon {self.epoch:.0f} of one client in this "
            f"registration period ({self.num_sums} sums), and {self.budget:.0f} in all "
            f"({self.most_sums} sums), at delta 1e-5. That is a weak bound. Attacks that were "
            "measured learned little in the median, and more of some clients; sums for tries and "
            "groups are exact."
        )
