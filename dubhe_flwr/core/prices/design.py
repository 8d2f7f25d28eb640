"""`PriceDesign`: turns sums into prices, and prices into probabilities of volunteering."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.blur import blurred
from dubhe_flwr.core.prices.newton import Floats, Problem
from dubhe_flwr.core.prices.scale import Scale, Target, opening_of
from dubhe_flwr.core.prices.state import Opening, PriceState, SumAtPoint
from dubhe_flwr.core.prices.synthetic import fitted, lasting_noise, synthetic_clients, unexplained
from dubhe_flwr.errors import RefusedError

_LEVELS: Final = 16
_FLOOR: Final = 0.02

_GRID: Final = 2.0**10
"""Prices are rounded to multiples of 1 / _GRID, which changes P by at most a thousandth."""

_CLOSE: Final = 0.02
"""Prices count as settled once the expected number of volunteers is within 2 % of V."""

_SMALL_GAIN: Final = 3e-3
"""Another sum pays only if it would lower F by at least this plus 2 (sigma / V)^2."""

_LARGEST_PRICE: Final = 2.0**20
_FARTHEST: Final = 8.0
"""Standard deviations by which noise may push a sum out of its range."""

_LEAST_RATIO: Final = 5.0 / 3.0
"""N / V when V is three fifths of all nodes. Without this limit, a server could make the opening's
noise smaller by asking for more participants."""

_SLACK: Final = 1e-9
"""Ridge on a and g, which keeps the Hessian regular."""

_DOUBT: Final = 10.0
"""Ridge on g, as a multiple of the variance of the opening's noise."""

_POOL: Final = 40
"""Sums are taken for this many volunteers, if K is smaller."""


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
    coverage : float
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
    blur : float (default: 0)
        Standard deviation of the lasting noise on each share of a client's label distribution,
        which hides it in the client's draws.

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
    coverage: float
    local_skew: float = 0.0
    target: Target = None
    largest_weight: float = 1.0
    sigma: float = 0.0
    blur: float = 0.0

    @property
    def num_drawn(self) -> float:
        """``V'``: expected number of volunteers for a draw; at most V."""
        return min(self.num_volunteers, _ample(self.num_participants))

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

    def values(
        self, state: PriceState, labels: Floats, weights: ArrayLike = 1.0, lasting: ArrayLike = 0.0
    ) -> Floats:
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
        lasting : array_like of float, shape (N, C) (default: 0)
            Each client's lasting noise, relative to `blur`.
        """
        if not state.num_sums:
            weight_squares = np.broadcast_to(weights, len(labels)) ** 2
            squares = np.column_stack([(labels**2).sum(axis=1), weight_squares])
            columns = [labels, squares[:, : 1 + self.weighted] / self.largest_weight]
        else:
            scale = self._scale(state.opening)
            seen = self._seen(labels, weights, lasting)
            chances = _sigmoid(scale.logits(state.point, seen, weights))[:, None]
            columns = [chances * labels, *[chances] * self.weighted]
        return np.concatenate(columns, axis=1)

    def _seen(self, labels: Floats, weights: ArrayLike, lasting: ArrayLike) -> Floats:
        """Return the labels on which P depends: blurred, if there is a blur."""
        return blurred(labels, weights, self.blur * np.asarray(lasting)) if self.blur else labels

    def neutral(self, state: PriceState, num_clients: int) -> Floats:
        """Return what a client with a spent budget adds to the next sum, whatever its labels.

        At the opening, it counts as a client of one class, which may be any. Later, it adds an
        average client's part of V volunteers for whom the gradient of D vanishes (``m = -r b``), so
        that only the other clients move prices. If it added nothing, they would have to make up for
        its part of V.
        """
        if not state.num_sums:
            uniform = np.full(self.num_classes, 1.0 / self.num_classes)
            return np.append(uniform, np.full(1 + self.weighted, 1.0 / self.largest_weight))
        scale, prices = self._scale(state.opening), np.array(state.point[1:][: self.num_classes])
        labels = scale.mean_weight * scale.target - self._ridge(scale) * prices
        return self.num_volunteers / num_clients * np.append(labels, [1.0] * self.weighted)

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
            raise RefusedError("No nodes can have sent numbers with these sums.")
        if opening:
            opened = opening_of(means, float(noise[0]), self.num_classes, self.largest_weight)
            state = PriceState(1, opening=opened, point=(0.0,) * self.width)
        else:
            if not self.weighted:
                means = np.append(means, means.sum())
            state = state.with_sum(means, noise_in_sum * self.sigma**2)
        scale = self._scale(state.opening)
        if not scale.kappa:
            return replace(state, settled=True)
        fit, start = self._fit(state.opening, state.history, num_clients), np.array(state.point)
        if opening:
            start[0] = fit.shares @ fit.costs
        dual = replace(fit, shares=num_clients / self.num_volunteers * fit.shares)
        lowest = _lowest(dual, start)
        gain = scale.c * (dual.value(start) - dual.value(lowest))
        settled = not opening and self._is_settled(state.history[0], num_clients, gain)
        return replace(state, settled=settled, point=tuple(lowest.tolist()))

    @property
    def width(self) -> int:
        """Number of prices, including a."""
        return self.num_classes + 1 + self.weighted

    def restored(self, values: tuple[float, ...]) -> PriceState:
        """Return the state from its floats; raises `RefusedError` if they do not fit."""
        return PriceState.from_floats(values, self.num_classes, self.width)

    @lru_cache(maxsize=8)  # noqa: B019 - holds few states; the nodes of a simulation share them
    def _for_draws(self, state: PriceState, num_clients: int) -> Floats:
        """Return the prices for draws, at which V' clients volunteer instead of V."""
        fit = self._fit(state.opening, state.history, num_clients)
        dual = replace(fit, shares=num_clients / self.num_drawn * fit.shares)
        return _lowest(dual, np.array(state.point))

    @lru_cache(maxsize=2)  # noqa: B019 - the last sum and the draws share a fit
    def _fit(self, opening: Opening, history: tuple[SumAtPoint, ...], num_clients: int) -> Problem:
        """Return D without its factor N / V, over synthetic clients that fit the latest sums.

        At the latest point, these clients do not explain all of the gradient of D. The rest is
        added to D as a linear term, which corrects the gradient there. It is relative to V, and is
        taken to be the same for V'.
        """
        scale = self._scale(opening)
        clients = synthetic_clients(opening, num_clients, self.largest_weight)
        lasting = lasting_noise(*clients.labels.shape) if self.blur else 0.0
        seen = self._seen(clients.labels, clients.weights, lasting)
        rows, costs = scale.features(seen, clients.weights)
        rows = rows[:, : self.width]
        linear = -np.eye(self.width)[0]
        if history:
            chances = [_sigmoid(rows @ each.point - costs) for each in history]
            clients = fitted(clients, chances, history, num_clients, self.num_volunteers)
            lacking = unexplained(
                clients, chances[0], history[0], num_clients, weighted=self.weighted
            )
            gap = scale.moments(lacking)[: self.width]
            unblurred = (clients.shares * chances[0]) @ (clients.labels - seen)
            gap[1 : 1 + self.num_classes] += unblurred
            linear += num_clients / self.num_volunteers * gap
        of_weights = _SLACK + _DOUBT * opening[-1] ** 2
        ridge = [_SLACK, *[self._ridge(scale)] * self.num_classes, *[of_weights] * self.weighted]
        return Problem(rows, costs, clients.shares, _softplus, linear, np.array(ridge))

    def _is_settled(self, latest: SumAtPoint, num_clients: int, gain: float) -> bool:
        """Return whether V is met, and another sum would gain little, allowing for the noise."""
        noise = latest.variance / self.num_volunteers**2
        met = num_clients / self.num_volunteers * latest.means[-1]
        is_met = abs(met - 1.0) < _CLOSE + 2.0 * noise**0.5
        return is_met and gain < _SMALL_GAIN + 2.0 * noise

    def _ridge(self, scale: Scale) -> float:
        """Return r, the ridge of D on each class price."""
        return scale.c / (2.0 * (self.num_participants - 1))

    def _scale(self, opening: Opening) -> Scale:
        return Scale.of(opening, self.coverage, self.local_skew, self.target)

    def probabilities(
        self,
        state: PriceState,
        labels: Floats,
        num_clients: int,
        weights: ArrayLike = 1.0,
        dither: ArrayLike | None = None,
        *,
        lasting: ArrayLike = 0.0,
    ) -> Floats:
        """Return the probability that each of these clients, out of N, volunteers for a draw.

        It lies between 0.02 V' / N and 1 - 0.02 (1 - V' / N), and is K / N if clients are alike.
        Each client's own dither, uniform in [0, 1), picks one of the two nearest of 16 levels, so
        that the probability is right on average. Without a dither, the probability is not rounded
        to levels.
        """
        scale = self._scale(state.opening)
        if not scale.kappa:
            return np.full(len(labels), self.num_participants / num_clients)
        share = self.num_drawn / num_clients
        lowest, highest = _logit(_FLOOR * share), _logit(1.0 - _FLOOR * (1.0 - share))
        prices = self._for_draws(state, num_clients)
        seen = self._seen(labels, weights, lasting)
        logits = np.clip(scale.logits(prices, seen, weights), lowest, highest)
        found = _sigmoid(logits)
        if dither is None:
            return found
        step = (highest - lowest) / (_LEVELS - 1)
        levels = lowest + step * np.minimum(np.floor((logits - lowest) / step), _LEVELS - 2)
        below, above = _sigmoid(levels), _sigmoid(levels + step)
        return np.where(found - below > np.multiply(dither, above - below), above, below)


def volunteers_at_sums(num_clients: int, num_participants: int, *, noisy: bool = True) -> int:
    """Return ``V``: the expected number of volunteers at the prices where sums are taken.

    It is at most a quarter of all clients plus seven, since little could be balanced with more
    volunteers, but at least K.

    >>> volunteers_at_sums(num_clients=1000, num_participants=20)
    40
    """
    wanted = max(_POOL if noisy else 0, _ample(num_participants))
    return max(num_participants, min(wanted, num_clients // 4 + 7))


def _ample(num_participants: int) -> int:
    """Return K plus a standard deviation, so that without noise most draws have K volunteers."""
    return num_participants + isqrt(num_participants)


def _lowest(dual: Problem, start: Floats) -> Floats:
    """Return the minimum of D as prices: in range, and rounded."""
    found = np.clip(dual.minimum(start, reach=20.0), -_LARGEST_PRICE, _LARGEST_PRICE)
    return np.asarray(np.rint(found * _GRID) / _GRID)


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logits: ArrayLike) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, np.negative(logits))))


def _softplus(logits: Floats) -> tuple[Floats, Floats, Floats]:
    chances = _sigmoid(logits)
    return np.logaddexp(0.0, logits), chances, chances * _sigmoid(-logits)
