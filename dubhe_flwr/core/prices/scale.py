"""`Scale`: what the opening of an epoch says about the clients, and the features that follow."""

from typing import Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.core.prices.state import Opening

Target = tuple[float, ...] | Literal["own"] | None
"""Target share of each class, "own" for the federation's own mix, or None for equal shares."""

_LEAST_TRACE: Final = 3e-4
"""If the trace of the covariance of x is smaller, all clients count as alike."""


class Scale(NamedTuple):
    """The numbers in the logits that follow from the opening: t, the mean of w, c and kappa."""

    target: Floats
    mean_weight: float
    c: float
    kappa: float  # 0 where clients are alike

    @classmethod
    def of(cls, opening: Opening, coverage: float, local_skew: float, target: Target) -> Self:
        """Return what the opening says with these settings."""
        labels, (square, weight_square, deviation) = np.array(opening[:-3]), opening[-3:]
        weight = float(labels.sum())
        wanted = np.full(labels.size, 1.0 / labels.size)
        if target == "own":
            wanted = np.maximum(labels, 0.0) / np.maximum(labels, 0.0).sum()
        elif target is not None:
            wanted = np.array(target)
        # The mean of w^2 p is unknown; assume that weights do not depend on labels.
        squares = square + weight_square * (wanted @ wanted - 2.0 * wanted @ labels / weight)
        mean = labels - weight * wanted
        trace = float(squares - mean @ mean) + labels.size * deviation**2
        if trace < _LEAST_TRACE and not deviation:
            return cls(wanted, weight, 0.0, 0.0)
        c = coverage * max(trace, deviation, _LEAST_TRACE)
        return cls(wanted, weight, c, (1.0 + local_skew) / c)

    def features(self, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the features ``(1, x, w - mean)`` of clients, and their ``kappa s``."""
        x = labels - weights[:, None] * self.target
        rows = np.column_stack([np.ones(len(x)), x, weights - self.mean_weight])
        return rows, self.kappa * (x**2).sum(axis=1)

    def logits(self, point: ArrayLike, labels: Floats, weights: ArrayLike) -> Floats:
        """Return each client's logit of P at a point; g is left out if all weigh the same."""
        prices = np.asarray(point)
        rows, costs = self.features(labels, np.broadcast_to(weights, len(labels)))
        return np.asarray(rows[:, : prices.size] @ prices - costs)

    def moments(self, means: Floats) -> Floats:
        """Return the means of P times the features, from the means of ``P w p`` and P."""
        labels, chance = means[:-1], means[-1]
        weight = labels.sum()
        of_x = labels - weight * self.target
        return np.array([chance, *of_x, weight - self.mean_weight * chance])


def opening_of(means: Floats, deviation: float, num_classes: int, heaviest: float) -> Opening:
    """Return the opening of a state: the first means, clipped to values that clients can have."""
    labels, weight, weight_square = means[:num_classes], 1.0, 1.0
    if heaviest > 1.0:
        weight = min(max(float(labels.sum()), 1.0 / heaviest), heaviest)
        weight_square = min(max(float(means[-1]) * heaviest, weight**2), heaviest**2)
    square = float(means[num_classes]) * heaviest
    square = min(max(square, weight_square / num_classes), weight_square)
    labels = labels + (weight - labels.sum()) / num_classes
    return (*labels.tolist(), square, weight_square, deviation)
