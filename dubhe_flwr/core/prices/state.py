"""What there is to know of prices in the middle of an epoch: the same for all nodes, and public."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.prices.evaluation import SHORTER_STEPS, Floats, Query
from dubhe_flwr.core.prices.sums import PriceNumbers
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError

_GRID: Final = 2.0**14
_NUM_SCALARS: Final = 8


def rounded(values: ArrayLike) -> tuple[float, ...]:
    """Round to multiples of 2^-14, coarse enough for platforms to agree."""
    return tuple((np.rint(np.asarray(values) * _GRID) / _GRID).tolist())


def directions(rows: Floats, num_classes: int, number: int) -> Floats:
    """Return the first orthonormal columns that the rows span, rounded; in classes their sum is 0.

    >>> directions(np.array([[2.0, 0.0], [1.0, 0.0]]), num_classes=2, number=1).round(3)
    array([[-0.707],
           [ 0.707]])
    """
    rows = rows.copy()
    rows[:, :num_classes] -= rows[:, :num_classes].mean(axis=1, keepdims=True)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    columns = np.linalg.qr(rows.T)[0][:, :number]
    return np.asarray(np.rint(columns * _GRID) / _GRID)


@dataclass(frozen=True, slots=True, repr=False)  # the labels
class Position:
    """Where a client stands: ``x = w (p - t)``, shape (C,) with sum 0, and its weight w."""

    x: Floats
    weight: float = 1.0

    @classmethod
    def of(cls, distribution: ArrayLike, target: ArrayLike, weight: float = 1.0) -> Self:
        """Return the position of a client, from its ``p_l`` in fixed point and t, shapes (C,).

        The weight is its data as a multiple of what clients have on average.
        """
        shares = np.asarray(distribution, dtype=np.float64) / FIXED_POINT_SCALE
        return cls(weight * (shares - np.asarray(target, dtype=np.float64)), weight)

    @property
    def square(self) -> float:
        """``s``, the squared length of x."""
        return float(self.x @ self.x)


@dataclass(frozen=True, slots=True)
class PriceState:
    """What all nodes know of the prices of an epoch."""

    evaluations: int  # how many sums it rests on, that of the opening included
    settled: bool  # whether V is met and little is left to gain: no exchange is needed any more
    reach: float  # how much of the way from `base` to `point` the known sums support
    shift: float  # correction of a at the base, by which V is met there
    mean_weight: float  # of the nodes
    radius: float  # length beyond which features count as nearer in the curvature
    kappa: float  # price of s at the point; 0 where all are equally likely
    base_kappa: float  # the same at the base
    base: tuple[float, ...]  # ``(a, b)`` where the last step began
    point: tuple[float, ...]  # ``(a, b)`` where to evaluate next
    probes: tuple[float, ...]  # directions along which to sum the curvature, where it is too large

    @classmethod
    def first(cls, numbers: PriceNumbers) -> Self:
        """Return the state at the opening of an epoch: all are equally likely."""
        num_features, num_probes = numbers.num_features, numbers.num_probes
        probes = np.empty(0)
        if num_probes:
            rng = generator(0, "probes", num_features)
            signs = rng.choice([-1.0, 1.0], size=(num_probes, num_features))
            probes = directions(signs, numbers.num_classes, num_probes).ravel()
        at = (0.0,) * (1 + num_features)
        return cls(
            evaluations=0,
            settled=False,
            reach=1.0,
            shift=0.0,
            mean_weight=1.0,
            radius=numbers.largest_radius,
            kappa=0.0,
            base_kappa=0.0,
            base=at,
            point=at,
            probes=tuple(probes.tolist()),
        )

    def prices(self) -> tuple[Floats, float]:
        """Return ``(a, b)`` and kappa that hold if there is no further exchange."""
        base, point = np.array(self.base), np.array(self.point)
        base[0] += self.shift
        kappa = self.base_kappa + self.reach * (self.kappa - self.base_kappa)
        return base + self.reach * (point - base), kappa

    def query(self) -> Query:
        """Return what to evaluate next."""
        base, point = np.array(self.base), np.array(self.point)
        opening = not self.evaluations
        lengths = () if opening else SHORTER_STEPS
        points = np.array([point, *(base + length * (point - base) for length in lengths)])
        num_features = point.size - 1
        probes = np.reshape(self.probes, (num_features, len(self.probes) // num_features))
        return Query(points, self.kappa, self.radius, probes, opening)

    def features(self, position: Position) -> Floats:
        """Return x, and behind it where there is a price for it the weight above the mean."""
        if len(self.point) == 1 + position.x.size:
            return position.x
        return np.append(position.x, position.weight - self.mean_weight)

    def contribution(
        self,
        numbers: PriceNumbers,
        position: Position,
        rng: np.random.Generator,
        remembered: Sequence[float] = (),
    ) -> NDArray[np.int64]:
        """Return what a client adds to the sums of the next evaluation; rng is its own.

        At the opening it may remember the prices of an earlier epoch, which are a better first
        guess than any.
        """
        features = self.features(position)
        return numbers.encode(features, position.square, self.query(), rng, remembered)

    def logit(self, position: Position) -> float:
        """Return the logit of a client's probability if there is no further exchange."""
        prices, kappa = self.prices()
        return float(prices[0] + prices[1:] @ self.features(position) - kappa * position.square)

    def as_floats(self) -> tuple[float, ...]:
        """Return all of it as a flat tuple, whose length depends on the numbers alone."""
        *scalars, base, point, probes = (getattr(self, field.name) for field in fields(self))
        return (*map(float, scalars), *base, *point, *probes)

    @classmethod
    def from_floats(cls, numbers: PriceNumbers, values: Sequence[float]) -> Self:
        """Undo `as_floats`; `SettingsError` if that cannot be what it gave."""
        width = 1 + numbers.num_features
        wanted = _NUM_SCALARS + 2 * width + numbers.num_features * numbers.num_probes
        if len(values) != wanted:
            raise SettingsError(f"{len(values)} floats are no state of prices; give {wanted}.")
        if not np.all(np.isfinite(values)):
            raise SettingsError("A state of prices has a number that is not finite; register anew.")
        evaluations, settled, *scalars = values[:_NUM_SCALARS]
        vectors = tuple(values[_NUM_SCALARS:])
        fields: list[Any] = [int(evaluations), bool(settled), *scalars]
        fields += vectors[:width], vectors[width : 2 * width], vectors[2 * width :]
        return cls(*fields)
