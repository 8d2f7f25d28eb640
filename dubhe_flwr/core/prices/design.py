"""What prices are fitted for: from sums to prices, from prices to a probability."""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.prices.dual import Dual, Scale, sigmoid
from dubhe_flwr.core.prices.newton import Floats
from dubhe_flwr.core.prices.numbers import PriceNumbers, refusal
from dubhe_flwr.core.prices.state import Position, PriceState
from dubhe_flwr.core.prices.synthetic import synthetic_clients
from dubhe_flwr.errors import SettingsError

_LEVELS: Final = 16
_FLOOR: Final = 0.02

_GRID: Final = 2.0**10
"""Prices are multiples of its inverse: P then changes by a thousandth, and platforms, which differ
by 1e-9 at most, hardly ever round differently."""

_CLOSE: Final = 0.02
"""Prices count as settled once the expected number of volunteers is within 2 % of V."""

_SMALL_GAIN: Final = 3e-3
_PART_OF_NOISE: Final = 0.25
_LEAST_TRACE: Final = 3e-4
"""Clients whose covariance has a smaller trace count as alike."""

_DRIFT: Final = 0.04
"""Of V: how much the variance of a sum grows where a twentieth of the clients is replaced."""

_LARGEST_PRICE: Final = 2.0**20
_FARTHEST: Final = 8.0
"""Standard deviations by which noise may take a mean out of its range."""

_ROUNDING: Final = 1e-4


@dataclass(frozen=True, slots=True)
class PriceDesign:
    """What prices are fitted for.

    Parameters
    ----------
    num_participants : int
        ``K``, at least 2.
    num_volunteers : float
        ``V``: the pool, the expected number of volunteers of a draw.
    coverage : float (default: 0.3)
        Price of calling few clients again and again, relative to the trace of the covariance of x.
    local_skew : float (default: 0)
        Price of the skew of those who train.
    target : tuple of float or "own", optional (default: all classes equally often)
        Wanted share of each class, or the federation's own mix, which the opening tells.

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
    ...     rows = [design.contribution(numbers, state, client) for client in clients]
    ...     state = design.advance(numbers, state, sum(rows), num_clients=100)
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
        self,
        numbers: PriceNumbers,
        state: PriceState,
        position: Position,
        noise: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return a client's numbers for the next sum, with its noise, shape (num_slots,).

        The squares of the opening are sent as parts of the largest weight: all numbers of a field
        have the same range.
        """
        labels, weight = position.labels, position.weight
        if state.num_sums:
            probability = _sigmoid(self._logit(state, position))
            values = np.append(probability * labels, probability)
        else:
            squares = np.array([labels @ labels, weight**2]) / numbers.largest_weight
            values = np.append(labels, squares)
        opening = not state.num_sums
        return numbers.encode(values[: numbers.num_slots(opening=opening)], noise, opening=opening)

    def advance(
        self,
        numbers: PriceNumbers,
        state: PriceState,
        sums: ArrayLike,
        num_clients: int,
        noise_shares: float = 1.0,
    ) -> PriceState:
        """Take up the sums over all N clients, who gave their numbers for a state.

        The new state is the same on every node and platform.

        Parameters
        ----------
        sums : array_like of int, shape (num_slots,)
        noise_shares : float (default: 1)
            Variance of the noise in the sums, relative to what `PriceNumbers.deviations` says:
            N / (fewest clients of a sum) where nodes add it, the number of members of a committee.

        Raises
        ------
        RefusedError
            If no clients can have given such numbers.
        SettingsError
            If V is not below N.
        """
        if self.num_volunteers >= num_clients:
            raise SettingsError(
                f"num_volunteers={self.num_volunteers} must be below the {num_clients} clients."
            )
        opening = not state.num_sums
        means = numbers.means(sums, num_clients, opening=opening)
        deviations = numbers.deviations(num_clients, self.num_volunteers, opening=opening)
        deviations *= noise_shares**0.5 / num_clients
        lowest = -_FARTHEST * deviations - _ROUNDING
        highest = numbers.largest_weight - lowest
        if np.any(means < lowest) or np.any(means > highest):
            raise refusal()
        if opening:
            opened = _opened(numbers, means, float(deviations[0]))
            state = replace(state, num_sums=1, opening=opened)
        else:
            variance = noise_shares * numbers.sigma(self.num_volunteers) ** 2
            state = state.with_answer(means, variance)
        scale = self._scale(state)
        if not scale.kappa:
            return replace(state, settled=True)
        return self._fit(numbers, state, scale, num_clients)

    def _fit(
        self, numbers: PriceNumbers, state: PriceState, scale: Scale, num_clients: int
    ) -> PriceState:
        """Return the state with the prices that are best for all that is known."""
        volunteers, means, answers = self.num_volunteers, np.array(state.opening), state.answers()
        clients = synthetic_clients(means[:-1], means[-1], num_clients, numbers.largest_weight)
        pull = scale.entropy / (2.0 * (self.num_participants - 1))
        dual = Dual(clients, answers, scale, num_clients, volunteers, pull, len(state.point))
        found = dual.minimum(answers[0].point if answers else dual.start())
        limited = np.clip(found, -_LARGEST_PRICE, _LARGEST_PRICE)
        point = np.rint(limited * _GRID) / _GRID
        settled = state.is_warm
        if answers and not settled:
            latest, variance = answers[0], answers[0].variance / volunteers**2
            expected = latest.means[-1] if numbers.weighted else latest.means.sum()
            missed = abs(expected * num_clients / volunteers - 1.0)
            gain = scale.entropy * (dual.value(latest.point) - dual.value(point))
            variances = np.full(point.size, variance / numbers.num_classes)
            variances[0], variances[1 + numbers.num_classes :] = variance, 0.0
            noise = scale.entropy * dual.gain_from_noise(point, variances)
            settled = bool(
                gain < _SMALL_GAIN + _PART_OF_NOISE * noise
                and missed < _CLOSE + 2.0 * variance**0.5
            )
        return replace(state, settled=settled, point=tuple(point.tolist()))

    def _scale(self, state: PriceState) -> Scale:
        """Return what the opening says of all clients."""
        means = np.array(state.opening)
        labels, square, weight_square, deviation = means[:-3], means[-3], means[-2], means[-1]
        weight = float(labels.sum())
        target = np.full(labels.size, 1.0 / labels.size)
        if self.target == "own":
            target = np.maximum(labels, 0.0) / np.maximum(labels, 0.0).sum()
        elif self.target is not None:
            target = np.array(self.target)
        # The mean of w^2 p is as if weights and labels were independent.
        of_x = square + weight_square * (target @ target - 2.0 * target @ labels / weight)
        mean = labels - weight * target
        trace = float(of_x - mean @ mean) + labels.size * deviation**2
        if trace < _LEAST_TRACE and not deviation:
            return Scale(target, weight, 0.0, 0.0)
        entropy = self.coverage * max(trace, deviation, _LEAST_TRACE)
        return Scale(target, weight, entropy, (1.0 + self.local_skew) / entropy)

    def _logit(self, state: PriceState, position: Position) -> float:
        scale, point = self._scale(state), np.array(state.point)
        x = position.labels - position.weight * scale.target
        features = np.array([1.0, *x, position.weight - scale.mean_weight])[: point.size]
        return float(point @ features - scale.kappa * (x @ x))

    def probability(
        self, state: PriceState, position: Position, num_clients: int, dither: float | None = None
    ) -> float:
        """Return the probability with which one of N clients volunteers.

        It is from 0.02 V / N to 1 - 0.02 (1 - V / N), and the same for all clients before any sum
        and where clients are alike. The dither is uniform in [0, 1), the client's own: it chooses
        between the two nearest of 16 levels, so that the probability is right on average. Without
        it there are no levels.
        """
        share = min(1.0, self.num_volunteers / num_clients)
        if share == 1.0 or not (state.num_sums and self._scale(state).kappa):
            return share
        lowest, highest = _logit_of(_FLOOR * share), _logit_of(1.0 - _FLOOR * (1.0 - share))
        logit = min(max(self._logit(state, position), lowest), highest)
        if dither is None:
            return _sigmoid(logit)
        step = (highest - lowest) / (_LEVELS - 1)
        level = min(int((logit - lowest) / step), _LEVELS - 2)
        below, above = _sigmoid(lowest + step * level), _sigmoid(lowest + step * (level + 1))
        return above if _sigmoid(logit) - below > dither * (above - below) else below


def _opened(numbers: PriceNumbers, means: Floats, deviation: float) -> tuple[float, ...]:
    """Return the opening of a state, with means that clients can have."""
    num_classes, heaviest = numbers.num_classes, numbers.largest_weight
    labels, weight = means[:num_classes], 1.0
    square = float(means[num_classes]) * heaviest
    weight_square = 1.0
    if numbers.weighted:
        weight = min(max(float(labels.sum()), 1.0 / heaviest), heaviest)
        weight_square = min(max(float(means[-1]) * heaviest, weight**2), heaviest**2)
    labels = labels + (weight - labels.sum()) / num_classes
    square = min(max(square, weight_square / num_classes), weight_square)
    return (*labels.tolist(), square, weight_square, deviation)


def _logit_of(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logit: float) -> float:
    return float(sigmoid(np.array(logit)))
