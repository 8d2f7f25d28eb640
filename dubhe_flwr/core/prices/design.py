"""`PriceDesign`: turns sums into prices, and prices into probabilities of volunteering."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isqrt
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.newton import Floats, Problem
from dubhe_flwr.core.prices.state import PriceState, SumAtPoint
from dubhe_flwr.core.prices.synthetic import Clients, fitted, synthetic_clients
from dubhe_flwr.errors import RefusedError

_LEVELS: Final = 16
_FLOOR: Final = 0.02

_GRID: Final = 2.0**10
"""Prices are rounded to multiples of 1 / _GRID, which changes P by at most a thousandth."""

_CLOSE: Final = 0.02
"""Prices count as settled once the expected number of volunteers is within 2 % of V."""

_SMALL_GAIN: Final = 3e-3
"""Another sum pays only if it would lower F by at least this plus 2 (sigma / V)^2."""

_LEAST_TRACE: Final = 3e-4
"""If the trace of the covariance of x is smaller, all clients count as alike."""

_LARGEST_PRICE: Final = 2.0**20
_FARTHEST: Final = 8.0
"""Standard deviations by which noise may push a sum out of its range."""

_LEAST_RATIO: Final = 5.0 / 3.0
"""The opening's noise is N / V times the noise of a class in a later sum, but never less than this
many times, which is N / V when V is three fifths of all nodes. Without this limit, a server could
make the noise smaller by asking for more participants."""

_SLACK: Final = 1e-9
"""Ridge on a and g, which keeps the Hessian regular."""

_DOUBT: Final = 10.0
"""Ridge on g, as a multiple of the variance of the opening's noise: the less the opening says about
the weights, the less they count."""


_POOL: Final = 40
"""Sums are taken for this many volunteers, if K is smaller: enough for sums to stand out from their
noise."""


class _Fit(NamedTuple):
    """Synthetic clients whose shares fit the opening and the latest sums."""

    rows: Floats  # features ``(1, x, w - mean)``, shape (M, n)
    costs: Floats  # ``kappa s``, shape (M,)
    shares: Floats
    unexplained: Floats  # part of the gradient of D that they do not explain, shape (n,)


class _Scale(NamedTuple):
    """What the opening says about the clients: t, the mean of w, c and kappa."""

    target: Floats
    mean_weight: float
    c: float
    kappa: float  # 0 where clients are alike


@dataclass(frozen=True, slots=True)
class PriceDesign:
    """Computes prices for these settings, and probabilities from the prices.

    Parameters
    ----------
    num_classes : int
        ``C``.
    num_participants : int
        ``K``, at least 2.
    num_volunteers : float
        ``V``: expected number of volunteers at the prices where sums are taken, at least K.
    coverage : float (default: 0.15)
        Price of selecting the same few clients over and over, relative to the trace of the
        covariance of x.
    local_skew : float (default: 0)
        Price of the participants' local skew.
    target : tuple of float or "own", optional (default: all classes equally often)
        Target share of each class, or "own" for the federation's own mix, known from the opening.
    largest_weight : float (default: 1)
        Largest weight of a client; with 1 all clients weigh the same.
    sigma : float (default: 0)
        Standard deviation of the noise on a sum of P.

    Examples
    --------
    Half of the clients hold class 0 and a tenth class 1; the others hold both:

    >>> p = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [50, 10, 40], axis=0)
    >>> design, state = PriceDesign(2, 5, 20.0, coverage=1.0), PriceState()
    >>> while not state.settled:
    ...     state = design.advance(state, design.values(state, p).mean(axis=0), num_clients=100)
    >>> design.probabilities(state, p[[0, 50, 60]], 100).round(2).tolist()
    [0.01, 0.03, 0.16]
    """

    num_classes: int
    num_participants: int
    num_volunteers: float
    coverage: float = 0.15
    local_skew: float = 0.0
    target: tuple[float, ...] | Literal["own"] | None = None
    largest_weight: float = 1.0
    sigma: float = 0.0

    @property
    def num_drawn(self) -> float:
        """``V'``: expected number of volunteers for a draw, see `ample`; at most V."""
        return min(self.num_volunteers, ample(self.num_participants))

    @property
    def weighted(self) -> bool:
        """Whether clients differ in weight."""
        return self.largest_weight > 1.0

    def deviations(self, num_clients: int, *, opening: bool) -> Floats:
        """Return the standard deviation of the noise on each sum, in clients.

        Each class has ``sigma / sqrt(C)``, and P has sigma. At the opening, every number has N / V
        times the noise of a class, but at least 5 / 3 times: clients enter the opening in full, not
        scaled by P, which averages V / N.
        """
        of_class = self.sigma / self.num_classes**0.5
        if opening:
            size = self.num_classes + 1 + self.weighted
            ratio = max(num_clients / self.num_volunteers, _LEAST_RATIO)
            return np.full(size, of_class * ratio)
        return np.append(np.full(self.num_classes, of_class), [self.sigma] * self.weighted)

    def values(self, state: PriceState, labels: Floats, weights: ArrayLike = 1.0) -> Floats:
        """Return what clients add to the next sum, one row per client.

        These are ``w p``, ``||w p||^2`` and ``w^2`` at the opening, later ``P w p`` and P. If all
        clients weigh the same, ``w^2`` and P are left out, since the classes add up to P. The
        squares of the opening are divided by the largest weight, so all numbers have the same
        range.

        Parameters
        ----------
        labels : ndarray of float, shape (N, C)
            ``w p`` of each client.
        weights : array_like of float, shape (N,) (default: 1)
            Each client's amount of data as a multiple of the clients' mean.
        """
        weights = np.broadcast_to(weights, len(labels))
        if not state.num_sums:
            squares = np.column_stack([(labels**2).sum(axis=1), weights**2])
            columns = [labels, squares[:, : 1 + self.weighted] / self.largest_weight]
        else:
            chances = _sigmoid(self._logits(state, labels, weights))[:, None]
            columns = [chances * labels, *[chances] * self.weighted]
        return np.concatenate(columns, axis=1)

    def advance(
        self, state: PriceState, means: Floats, num_clients: int, noise_in_sum: float = 1.0
    ) -> PriceState:
        """Return the next state from the means of all N clients' values for this state.

        The new state is the same on every node and platform. `noise_in_sum` is the variance of the
        noise in the sums, as a multiple of the variance that `deviations` gives.

        Raises `RefusedError`, without detail, if no clients can have such values.
        """
        opening = not state.num_sums
        noise = self.deviations(num_clients, opening=opening) * (noise_in_sum**0.5 / num_clients)
        slack = _FARTHEST * noise + 1e-4
        if np.any(means < -slack) or np.any(means > self.largest_weight + slack):
            raise RefusedError("No nodes can have sent these sums for prices; register again.")
        if opening:
            opened, point = self._opened(means, float(noise[0])), (0.0,) * self.width
            state = replace(state, num_sums=1, opening=opened, point=point)
        else:
            if not self.weighted:
                means = np.append(means, means.sum())
            state = state.with_sum(means, noise_in_sum * self.sigma**2)
        if not self._scale(state).kappa:
            return replace(state, settled=True)
        return self._fitted(state, num_clients)

    @property
    def width(self) -> int:
        """Number of prices, including a."""
        return self.num_classes + 1 + self.weighted

    def restored(self, values: tuple[float, ...]) -> PriceState:
        """Return the state from its floats; raises `RefusedError` if they do not fit."""
        return PriceState.from_floats(values, self.num_classes, self.width)

    def _opened(self, means: Floats, deviation: float) -> tuple[float, ...]:
        """Return the opening of a state, its means clipped to values that clients can have."""
        labels, heaviest = means[: self.num_classes], self.largest_weight
        weight, weight_square = 1.0, 1.0
        if self.weighted:
            weight = min(max(float(labels.sum()), 1.0 / heaviest), heaviest)
            weight_square = min(max(float(means[-1]) * heaviest, weight**2), heaviest**2)
        square = float(means[self.num_classes]) * heaviest
        square = min(max(square, weight_square / self.num_classes), weight_square)
        labels = labels + (weight - labels.sum()) / self.num_classes
        return (*labels.tolist(), square, weight_square, deviation)

    def _fitted(self, state: PriceState, num_clients: int) -> PriceState:
        """Return the state with the prices that minimise D over fitted synthetic clients."""
        fit, start = self._fit(state.opening, state.history, num_clients), np.array(state.point)
        if not state.history:
            start[0] = fit.shares @ fit.costs
        dual = self._dual(state, fit, num_clients / self.num_volunteers)
        point = _lowest(dual, start)
        gain = self._scale(state).c * (dual.value(start) - dual.value(point))
        settled = bool(state.history) and self._is_settled(state.sums()[0], num_clients, gain)
        return replace(state, settled=settled, point=tuple(point.tolist()))

    @lru_cache(maxsize=8)  # noqa: B019 - holds few states; the nodes of a simulation share them
    def _for_draws(self, state: PriceState, num_clients: int) -> PriceState:
        """Return the state with the prices for draws, at which V' clients volunteer instead of V.

        Sums are taken for V volunteers, so that they stand out from their noise. With fewer
        volunteers, fewer clients would need a P above 1, so prices can balance more. No sum is
        taken at these prices: they minimise D over the same fitted synthetic clients.
        """
        fit = self._fit(state.opening, state.history, num_clients)
        dual = self._dual(state, fit, num_clients / self.num_drawn)
        return replace(state, point=tuple(_lowest(dual, np.array(state.point)).tolist()))

    @lru_cache(maxsize=2)  # noqa: B019 - the last sum and the draws share a fit
    def _fit(
        self,
        opening: tuple[float, ...],
        history: tuple[tuple[float, ...], ...],
        num_clients: int,
    ) -> _Fit:
        """Return synthetic clients that fit the opening and the latest sums."""
        state = PriceState(opening=opening, point=(0.0,) * self.width, history=history)
        scale, sums = self._scale(state), state.sums()
        clients = synthetic_clients(np.array(opening), num_clients, self.largest_weight)
        rows, costs = self._features(scale, clients.labels, clients.weights)
        chances = [_sigmoid(rows @ each.point - costs) for each in sums]
        clients = fitted(clients, chances, sums, num_clients, self.num_volunteers)
        unexplained = np.zeros(self.width)
        if sums:
            unexplained = self._unexplained(scale, clients, chances[0], sums[0], num_clients)
        return _Fit(rows, costs, clients.shares, unexplained)

    def _dual(self, state: PriceState, fit: _Fit, factor: float) -> Problem:
        """Return D; `factor` is N divided by the number of volunteers."""
        linear = fit.unexplained.copy()
        linear[0] -= 1.0
        softplus = partial(_softplus, fit.costs, factor * fit.shares)
        return Problem(fit.rows, softplus, linear, self._ridge(self._scale(state), state))

    def _ridge(self, scale: _Scale, state: PriceState) -> Floats:
        """Return the ridge of D on each price."""
        of_class = scale.c / (2.0 * (self.num_participants - 1))
        of_weights = _SLACK + _DOUBT * state.opening[-1] ** 2
        return np.array([_SLACK, *[of_class] * self.num_classes, *[of_weights] * self.weighted])

    def _is_settled(self, latest: SumAtPoint, num_clients: int, gain: float) -> bool:
        """Return whether V is met, and another sum would gain little, allowing for the noise."""
        noise = latest.variance / self.num_volunteers**2
        met = num_clients / self.num_volunteers * float(latest.means[-1])
        is_met = abs(met - 1.0) < _CLOSE + 2.0 * noise**0.5
        return is_met and gain < _SMALL_GAIN + 2.0 * noise

    def _unexplained(
        self,
        scale: _Scale,
        clients: Clients,
        chances: Floats,
        latest: SumAtPoint,
        num_clients: int,
    ) -> Floats:
        """Return the part of the gradient of D that no shares of the synthetic clients explain.

        At the latest point, the sums of the synthetic clients differ from the real ones. The part
        of this gap that noise does not explain is added to D as a linear term, which corrects the
        gradient there. The gap is relative to V, and is taken to be the same for V'.
        """
        answers = clients.shares * chances
        lacking = latest.means - np.append(answers @ clients.labels, answers.sum())
        seen = lacking if self.weighted else lacking[:-1]
        noise = 2.0 * (latest.variance / num_clients**2) * (1 + self.weighted)
        lacking = lacking * max(0.0, 1.0 - noise / max(float(seen @ seen), 1e-300))
        total = lacking[:-1].sum()
        chance = lacking[-1] if self.weighted else total
        of_x = lacking[:-1] - total * scale.target
        gap = np.array([chance, *of_x, total - scale.mean_weight * chance])[: self.width]
        return np.asarray(num_clients / self.num_volunteers * gap)

    def _scale(self, state: PriceState) -> _Scale:
        """Return what the opening says about the clients."""
        labels, rest = np.array(state.opening[:-3]), state.opening[-3:]
        square, weight_square, deviation = rest
        weight = float(labels.sum())
        target = np.full(labels.size, 1.0 / labels.size)
        if self.target == "own":
            target = np.maximum(labels, 0.0) / np.maximum(labels, 0.0).sum()
        elif self.target is not None:
            target = np.array(self.target)
        # The mean of w^2 p is unknown; assume that weights do not depend on labels.
        squares = square + weight_square * (target @ target - 2.0 * target @ labels / weight)
        mean = labels - weight * target
        trace = float(squares - mean @ mean) + labels.size * deviation**2
        if trace < _LEAST_TRACE and not deviation:
            return _Scale(target, weight, 0.0, 0.0)
        c = self.coverage * max(trace, deviation, _LEAST_TRACE)
        return _Scale(target, weight, c, (1.0 + self.local_skew) / c)

    def _features(self, scale: _Scale, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the features ``(1, x, w - mean)`` of clients, and their ``kappa s``."""
        x = labels - weights[:, None] * scale.target
        rows = np.column_stack([np.ones(len(x)), x, weights - scale.mean_weight])
        return rows[:, : self.width], scale.kappa * (x**2).sum(axis=1)

    def _logits(self, state: PriceState, labels: Floats, weights: Floats) -> Floats:
        rows, costs = self._features(self._scale(state), labels, weights)
        return np.asarray(rows @ np.array(state.point) - costs)

    def probabilities(
        self,
        state: PriceState,
        labels: Floats,
        num_clients: int,
        weights: ArrayLike = 1.0,
        dither: ArrayLike | None = None,
    ) -> Floats:
        """Return the probability that each of these clients, out of N, volunteers for a draw.

        It lies between 0.02 V' / N and 1 - 0.02 (1 - V' / N), and is K / N if clients are alike.
        Each client's own dither, uniform in [0, 1), picks one of the two nearest of 16 levels, so
        that the probability is right on average. Without a dither, the probability is not rounded
        to levels.
        """
        if not self._scale(state).kappa:
            return np.full(len(labels), self.num_participants / num_clients)
        share = self.num_drawn / num_clients
        lowest, highest = _logit(_FLOOR * share), _logit(1.0 - _FLOOR * (1.0 - share))
        drawing = self._for_draws(state, num_clients)
        logits = self._logits(drawing, labels, np.broadcast_to(weights, len(labels)))
        logits = np.clip(logits, lowest, highest)
        found = _sigmoid(logits)
        if dither is None:
            return found
        step = (highest - lowest) / (_LEVELS - 1)
        levels = lowest + step * np.minimum(np.floor((logits - lowest) / step), _LEVELS - 2)
        below, above = _sigmoid(levels), _sigmoid(levels + step)
        return np.where(found - below > np.multiply(dither, above - below), above, below)


def ample(num_participants: int) -> int:
    """Return K plus a standard deviation, so that most draws have at least K volunteers.

    With K volunteers on average, half of the draws would have to be filled up at random.

    >>> ample(20)
    24
    """
    return num_participants + isqrt(num_participants)


def volunteers_at_sums(num_clients: int, num_participants: int, *, noisy: bool = True) -> int:
    """Return ``V``: the expected number of volunteers at the prices where sums are taken.

    It is at most a quarter of all clients plus seven, since little could be balanced with more
    volunteers, but at least K.

    >>> volunteers_at_sums(num_clients=1000, num_participants=20)
    40
    """
    wanted = max(_POOL if noisy else 0, ample(num_participants))
    return max(num_participants, min(wanted, num_clients // 4 + 7))


def _lowest(dual: Problem, start: Floats) -> Floats:
    """Return the minimum of D as prices: in range, and rounded."""
    found = np.clip(dual.minimum(start, reach=20.0), -_LARGEST_PRICE, _LARGEST_PRICE)
    return np.asarray(np.rint(found * _GRID) / _GRID)


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logits: ArrayLike) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, np.negative(logits))))


def _softplus(costs: Floats, weights: Floats, values: Floats) -> tuple[float, Floats, Floats]:
    """Return ``sum weights softplus(values - costs)`` and its first two derivatives."""
    logits = values - costs
    first = weights * _sigmoid(logits)
    return float(weights @ np.logaddexp(0.0, logits)), first, first * _sigmoid(-logits)
