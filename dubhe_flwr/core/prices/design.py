"""`PriceDesign`: turns sums into prices, and prices into the probability to volunteer."""

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.newton import Floats, minimum
from dubhe_flwr.core.prices.numbers import Integers, PriceNumbers
from dubhe_flwr.core.prices.state import Position, PriceState
from dubhe_flwr.core.prices.synthetic import fitted, synthetic_clients
from dubhe_flwr.errors import SettingsError

_LEVELS: Final = 16
_FLOOR: Final = 0.02

_GRID: Final = 2.0**10
"""Prices are rounded to multiples of 1 / _GRID, which changes P by at most a thousandth."""

_CLOSE: Final = 0.02
"""Prices count as settled once the expected number of volunteers is within 2 % of V."""

_SMALL_GAIN: Final = 3e-3
"""A gain in F below this, plus twice the square of sigma / V, is not worth another exchange."""

_LEAST_TRACE: Final = 3e-4
"""If the covariance of x has a smaller trace, all clients count as alike."""

_LARGEST_PRICE: Final = 2.0**20
_FARTHEST: Final = 8.0
"""Standard deviations by which noise may push a sum out of its range."""

_SLACK: Final = 1e-9
"""Ridge on a and g, which keeps the Hessian regular."""


class _Scale(NamedTuple):
    """What the opening tells about the clients: t, the mean of w, c and kappa."""

    target: Floats
    mean_weight: float
    c: float
    kappa: float  # 0 where clients are alike

    def features(self, labels: Floats, weights: Floats, number: int) -> tuple[Floats, Floats]:
        """Return the first features ``(1, x, w - mean)`` of M clients, and their ``kappa s``."""
        x = labels - weights[:, None] * self.target
        rows = np.column_stack([np.ones(weights.size), x, weights - self.mean_weight])
        return rows[:, :number], self.kappa * (x**2).sum(axis=1)


@dataclass(frozen=True, slots=True)
class PriceDesign:
    """What prices are optimised for.

    Parameters
    ----------
    num_participants : int
        ``K``, at least 2.
    num_volunteers : float
        ``V``: the pool, the expected number of volunteers of a draw.
    coverage : float (default: 0.3)
        Price of selecting the same few clients over and over, relative to the trace of the
        covariance of x.
    local_skew : float (default: 0)
        Price of the participants' local skew.
    target : tuple of float or "own", optional (default: all classes equally often)
        Target share of each class, or "own" for the federation's own mix, known from the opening.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    Half of the clients hold class 0 and a tenth class 1; the others hold both:

    >>> p = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [50, 10, 40], axis=0)
    >>> clients = [Position(own) for own in p]
    >>> numbers = PriceNumbers(num_classes=2, max_clients=100, noise=0.0)
    >>> design, state = PriceDesign(5, 20.0, coverage=1.0), PriceState.first(numbers)
    >>> while not state.settled:
    ...     sums = sum(design.contribution(numbers, state, client) for client in clients)
    ...     state = design.advance(numbers, state, sums, num_clients=100)
    >>> [round(design.probability(state, clients[row], 100), 2) for row in (0, 50, 60)]
    [0.04, 0.12, 0.42]
    """

    num_participants: int
    num_volunteers: float
    coverage: float = 0.3
    local_skew: float = 0.0
    target: tuple[float, ...] | Literal["own"] | None = None

    def __post_init__(self) -> None:
        if not (self.num_participants >= 2 and self.num_volunteers > 0):
            raise SettingsError(
                f"num_participants={self.num_participants} must be at least 2 and num_volunteers="
                f"{self.num_volunteers} above 0."
            )
        if not (0.0 < self.coverage <= 1000.0 and 0.0 <= self.local_skew <= 1000.0):
            raise SettingsError(
                f"coverage={self.coverage} must be above 0, local_skew={self.local_skew} from 0 "
                "up, and neither above 1000."
            )

    def contribution(
        self, numbers: PriceNumbers, state: PriceState, own: Position, noise: Integers | int = 0
    ) -> Integers:
        """Return a client's numbers for the next sum, shape (num_slots,).

        The squares of the opening are divided by the largest weight, so all numbers have the same
        range.
        """
        if opening := not state.num_sums:
            squares = np.array([own.labels @ own.labels, own.weight**2]) / numbers.largest_weight
            values = np.append(own.labels, squares)
        else:
            values = _sigmoid(self._logit(state, own)) * np.append(own.labels, 1.0)
        return numbers.encode(values[: numbers.num_slots(opening=opening)], noise, opening=opening)

    def advance(
        self,
        numbers: PriceNumbers,
        state: PriceState,
        sums: ArrayLike,
        num_clients: int,
        noise_shares: float = 1.0,
    ) -> PriceState:
        """Return the next state from the sums of all N clients' numbers for this state.

        The new state is the same on every node and platform. The noise in the sums has
        `noise_shares` times the variance of `PriceNumbers.deviations`: N / (fewest clients of a
        sum) where nodes add it, otherwise the number of members of the committee.

        Raises
        ------
        RefusedError
            If no clients can have given such numbers.
        SettingsError
            If V is not below N.
        """
        volunteers, opening = self.num_volunteers, not state.num_sums
        if volunteers >= num_clients:
            raise SettingsError(f"num_volunteers={volunteers} must be below {num_clients} clients.")
        deviations = numbers.deviations(num_clients, volunteers, opening=opening)
        deviations *= noise_shares**0.5 / num_clients
        means = numbers.means(sums, num_clients, _FARTHEST * deviations + 1e-4, opening=opening)
        if opening:
            opened = _opened(numbers, means, float(deviations[0]))
            state = replace(state, num_sums=1, opening=opened)
        else:
            state = state.with_exchange(means, noise_shares * numbers.sigma(volunteers) ** 2)
        if not self._scale(state).kappa:
            return replace(state, settled=True)
        return self._fitted(numbers, state, num_clients)

    def _fitted(self, numbers: PriceNumbers, state: PriceState, num_clients: int) -> PriceState:
        """Return the state with the prices that minimise D over fitted synthetic clients."""
        volunteers, num_classes, scale = (
            self.num_volunteers,
            numbers.num_classes,
            self._scale(state),
        )
        clients = synthetic_clients(np.array(state.opening), num_clients, numbers.largest_weight)
        rows, costs = scale.features(clients.labels, clients.weights, len(state.point))
        exchanges = [
            (_sigmoid(rows @ point - costs), means, variance)
            for point, means, variance in state.exchanges()
        ]
        clients = fitted(clients, exchanges, num_clients, volunteers)
        factor = num_clients / volunteers
        linear, ridge = np.zeros(len(state.point)), np.full(len(state.point), _SLACK)
        linear[0] = -1.0
        ridge[1 : 1 + num_classes] = scale.c / (2.0 * (self.num_participants - 1))
        start = np.append(clients.shares @ costs - np.log(factor - 1.0), np.zeros(linear.size - 1))
        if exchanges:
            # Where no shares reproduce the latest sums, and by more than noise explains, a linear
            # term puts the gradient at that point right.
            start, (chances, means, variance) = np.array(state.point), exchanges[0]
            chosen = clients.shares * chances
            lacking = means - np.append(chosen @ clients.labels, chosen.sum())[: means.size]
            noise = 2.0 * variance * (1 + numbers.weighted) / num_clients**2
            lacking *= factor * max(0.0, 1.0 - noise / max(float(lacking @ lacking), 1e-300))
            total, chance = lacking[:num_classes].sum(), lacking[num_classes:].sum()
            of_x = lacking[:num_classes] - total * scale.target
            lacking = np.array(
                [chance if numbers.weighted else total, *of_x, total - scale.mean_weight * chance]
            )
            linear += lacking[: linear.size]

        def softplus(values: Floats) -> tuple[float, Floats, Floats]:
            logits, weights = values - costs, factor * clients.shares
            first = weights * _sigmoid(logits)
            return float(weights @ np.logaddexp(0.0, logits)), first, first * _sigmoid(-logits)

        def dual(at: Floats) -> float:
            return softplus(rows @ at)[0] + float(linear @ at + ridge @ at**2 / 2)

        found = minimum(rows, softplus, linear, ridge, start, reach=20.0)
        point = np.rint(np.clip(found, -_LARGEST_PRICE, _LARGEST_PRICE) * _GRID) / _GRID
        settled = False
        if exchanges:
            noise = variance / volunteers**2
            missed = factor * float(means[num_classes:].sum() if numbers.weighted else means.sum())
            gain = scale.c * (dual(start) - dual(point))
            met = abs(missed - 1.0) < _CLOSE + 2.0 * noise**0.5
            settled = met and gain < _SMALL_GAIN + 2.0 * noise
        return replace(state, settled=settled, point=tuple(point.tolist()))

    def _scale(self, state: PriceState) -> _Scale:
        """Return what the opening tells about the clients."""
        labels, (square, weight_square, deviation) = (
            np.array(state.opening[:-3]),
            state.opening[-3:],
        )
        weight = float(labels.sum())
        target = np.full(labels.size, 1.0 / labels.size)
        if self.target == "own":
            target = np.maximum(labels, 0.0) / np.maximum(labels, 0.0).sum()
        elif self.target is not None:
            target = np.array(self.target)
        # This assumes for the mean of w^2 p that weights do not depend on labels.
        squares = square + weight_square * (target @ target - 2.0 * target @ labels / weight)
        mean = labels - weight * target
        trace = float(squares - mean @ mean) + labels.size * deviation**2
        if trace < _LEAST_TRACE and not deviation:
            return _Scale(target, weight, 0.0, 0.0)
        c = self.coverage * max(trace, deviation, _LEAST_TRACE)
        return _Scale(target, weight, c, (1.0 + self.local_skew) / c)

    def _logit(self, state: PriceState, own: Position) -> float:
        scale, point = self._scale(state), np.array(state.point)
        rows, costs = scale.features(own.labels[None], np.array([own.weight]), point.size)
        return float((rows @ point - costs)[0])

    def probability(
        self, state: PriceState, own: Position, num_clients: int, dither: float | None = None
    ) -> float:
        """Return the probability that one of N clients volunteers.

        It lies between 0.02 V / N and 1 - 0.02 (1 - V / N), and equals V / N before any sum and if
        clients are alike. A dither, uniform in [0, 1) and the client's own, chooses between the two
        nearest of 16 levels, so that the probability is right on average. Without a dither the
        probability is not rounded to levels.
        """
        share = min(1.0, self.num_volunteers / num_clients)
        if share == 1.0 or not (state.num_sums and self._scale(state).kappa):
            return share
        lowest, highest = _logit_of(_FLOOR * share), _logit_of(1.0 - _FLOOR * (1.0 - share))
        logit = min(max(self._logit(state, own), lowest), highest)
        if dither is None:
            return float(_sigmoid(logit))
        step = (highest - lowest) / (_LEVELS - 1)
        level = lowest + step * min(int((logit - lowest) / step), _LEVELS - 2)
        found, below, above = _sigmoid(np.array([logit, level, level + step])).tolist()
        return float(above if found - below > dither * (above - below) else below)


def _opened(numbers: PriceNumbers, means: Floats, deviation: float) -> tuple[float, ...]:
    """Return the opening of a state, its means clipped to values that clients can have."""
    num_classes, heaviest = numbers.num_classes, numbers.largest_weight
    labels, weight, weight_square = means[:num_classes], 1.0, 1.0
    if numbers.weighted:
        weight = min(max(float(labels.sum()), 1.0 / heaviest), heaviest)
        weight_square = min(max(float(means[-1]) * heaviest, weight**2), heaviest**2)
    square = float(means[num_classes]) * heaviest
    square = min(max(square, weight_square / num_classes), weight_square)
    labels = labels + (weight - labels.sum()) / num_classes
    return (*labels.tolist(), square, weight_square, deviation)


def _logit_of(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logits: ArrayLike) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, np.negative(logits))))
