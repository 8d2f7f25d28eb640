"""Bounds what noisy sums reveal about a client, using zero-concentrated differential privacy."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Final, Self

DELTA: Final = 1e-5


def epsilon(num_sums: float, num_slots: int, sigma: float) -> float:
    """Return a client's epsilon, at delta 1e-5, after its labels have entered `num_sums` sums.

    The client adds a vector P w p, whose length is at most w, to C classes, each with noise
    ``sigma / sqrt(C)``. If clients are weighted, it also adds P to a slot with noise sigma. A sum
    over S slots, C or C + 1, therefore costs at most ``rho = S / (2 sigma^2)`` of zCDP if w is at
    most 1. With a larger w, it costs w^2 times as much, so it counts as w^2 sums. The total rho
    gives ``epsilon = rho + 2 sqrt(rho ln(1 / delta))``. The opening costs less, because its noise
    is at least 5 / 3 times as large.

    >>> [round(epsilon(num_sums, 10, 1.5)) for num_sums in (4, 9)]
    [29, 50]
    """
    rho = num_sums * num_slots / (2.0 * sigma**2)
    return rho + 2.0 * sqrt(rho * log(1.0 / DELTA))


@dataclass(frozen=True, slots=True)
class PrivacyBound:
    """The bound for a registration period, and for the whole budget of a client's label counts.

    Parameters
    ----------
    epoch, budget : float
        Epsilon at delta 1e-5.
    num_sums, most_sums : int
        Number of sums in the period, and the budget of sums of a client of average weight. For a
        client with weight w above 1, each sum counts as w^2 sums, so the bound for the whole budget
        is the same for every weight.
    """

    epoch: float
    budget: float
    num_sums: int
    most_sums: int

    @classmethod
    def of(
        cls, num_sums: int, most_sums: int, num_slots: int, sigma: float, heaviest: float = 1.0
    ) -> Self:
        """Return the bound for the heaviest client, whose sums count `heaviest` squared times."""
        entered = num_sums * heaviest**2
        of_epoch, of_budget = (epsilon(n, num_slots, sigma) for n in (entered, most_sums))
        return cls(of_epoch, of_budget, num_sums, most_sums)

    def __str__(self) -> str:
        sums = "1 sum" if self.num_sums == 1 else f"{self.num_sums} sums"
        return (
            f"At worst the noisy sums reveal epsilon {self.epoch:.0f} about the largest client "
            f"in this registration period ({sums}), and {self.budget:.0f} about any client once "
            f"its budget of {self.most_sums} sums is spent, at delta 1e-5. This bound is weak. The "
            "attacks that we measured learned little about the median client, and more about some. "
            "With tries, agents also read exact sums."
        )
