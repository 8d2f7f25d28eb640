r"""Prices: participation from a client's own distribution, fitted to sums over all clients.

Client i stands at ``x_i = w_i (p_i - t)``: its label distribution less the wanted one t, times its
weight, which is 1 where all weigh the same. With ``s_i = ||x_i||^2`` it volunteers with

    logit P_i = a + b . x_i + g (w_i - w) - kappa s_i,        kappa = (1 + local_skew) / c

where b are C class prices: who holds what is scarce is asked more often. g, the price of a sample,
is there where weights differ, and w is their mean.

*What is minimised.* Of V volunteers K train. With ``m = sum P_i x_i / V`` the mean of x over the K
has the squared length ``||m||^2 + (sum P_i s_i / V - ||m||^2) / K`` on average: bias and sampling
variance. K times that, the skew of those who train and the entropy H of their draws, each at its
price, are

    F(P) = (K - 1) ||m||^2 + (1 + local_skew) sum P_i s_i / V - c / V sum H(P_i)

over ``sum P_i = V`` and ``sum P_i w_i = V w``. It is the maximum-entropy (Poisson) design of survey
sampling. Without the second condition small clients would be called, whose x is small, and they
would train on less than half as many samples. F is convex and stationary where

    c logit P_i = c a + c g (w_i - w) - 2 (K - 1) m . x_i - (1 + local_skew) s_i

with multipliers c a and c g, which is the form above with ``b = - 2 (K - 1) m / c``. What P
minimises F, (a, b, g) minimise in the dual

    D = 1/V sum softplus(logit P_i) - a + r/2 ||b||^2,        r = c / (2 (K - 1))

For F = -c (D + const) at the optimum. The gradient of D is ``(sum P_i / V - 1, m + r b, sum P_i
(w_i - w) / V)``; its Hessian has ``sum q_i z_i z_i^T / V``, with ``q_i = P_i (1 - P_i)`` and
``z = (1, x, w_i - w)``, and r on the diagonal of b. Where all w_i = 1 and t is uniform these are
the formulas for p_i in place of x_i, with ``- 2 K t . m`` in F and ``- K / (K - 1) t . b`` in D.

*How it is solved.* D and its derivatives are sums over clients; all nodes get them decrypted, and
each takes the same Newton steps. The sums of the opening travel with the registration. In a first
epoch, where all are equally likely at the opening, they give c, which is `coverage` times the
trace of the covariance of x, and a linear guess. An exchange evaluates everything at the point
of the state, and softplus alone after shorter steps: a step that went too far costs one exchange.
Before each step a is corrected as if all P_i grew by one factor, which is exact for small ones.

*The same prices everywhere.* Everything rests on sums of integers, and what a solve returns is
rounded to multiples of 2^-14: far coarser than the last bits in which platforms differ, and finer
than a probability needs.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.price_state import Position, PriceState, directions, rounded
from dubhe_flwr.core.price_sums import Evaluation, PriceNumbers
from dubhe_flwr.errors import SettingsError

__all__ = ["MOST_EXCHANGES", "PriceDesign", "affordable_exchanges"]

Floats = NDArray[np.float64]

MOST_EXCHANGES: Final = 8
"""Of an epoch, beside the opening."""

_LEVELS: Final = 16
_FLOOR: Final = 0.02
_CLOSE: Final = 0.02
"""Of V, within which its sum is met once prices are settled."""

_SMALL_STEP: Final = 0.1
_FIRST_STEP: Final = 2.0
_LONGEST_STEP: Final = 8.0
"""Steps are measured by the standard deviation of the change of the logits."""

_SHORTEST_STEP: Final = 0.05
_BETTER: Final = 1e-3
_OTHER_SPREAD: Final = 0.1
_SLACK: Final = 1e-3
"""Of the condition on the weights: it keeps the Hessian regular where weights are the same."""


def affordable_exchanges(numbers: PriceNumbers, num_clients: int) -> int:
    """Return after how many exchanges to stop, or -1 where not even the opening may be read.

    The numbers of an epoch are fewer than half of the N (C - 1) unknown ones of the clients.

    Parameters
    ----------
    numbers : PriceNumbers
        How many there are.
    num_clients : int
        ``N``.

    Examples
    --------
    >>> numbers = PriceNumbers(num_classes=10, max_clients=1000)
    >>> [affordable_exchanges(numbers, num_clients) for num_clients in (17, 18, 50, 1000)]
    [-1, 0, 2, 8]
    """
    left = (num_clients * (numbers.num_classes - 1) - 1) // 2 - numbers.num_slots(opening=True)
    return max(-1, min(MOST_EXCHANGES, left // numbers.num_slots(opening=False)))


@dataclass(frozen=True, slots=True)
class PriceDesign:
    """What prices are fitted for.

    Parameters
    ----------
    num_participants : int
        ``K``, at least 2.
    num_volunteers : float
        ``V``: volunteers of a draw on average.
    coverage : float (default: 0.3)
        Price of calling few clients again and again, relative to the trace of the covariance of x.
    local_skew : float (default: 0)
        Price of the skew of those who train.

    Raises
    ------
    SettingsError
        If a setting is out of range.

    Examples
    --------
    Half of the clients hold class 0 and a tenth class 1; the others hold both:

    >>> p = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [50, 10, 40], axis=0)
    >>> clients = [Position(own - 0.5) for own in p]
    >>> numbers = PriceNumbers(num_classes=2, max_clients=100)
    >>> design, state = PriceDesign(5, 20.0, coverage=1.0), PriceState.first(numbers)
    >>> rng = np.random.default_rng(0)
    >>> while not state.settled:
    ...     sums = sum(design.numbers_of(numbers, state, client, rng) for client in clients)
    ...     state = design.advance(numbers, state, sums, num_clients=100)
    >>> [round(design.probability(state, clients[row], 100), 2) for row in (0, 50, 60)]
    [0.04, 0.12, 0.42]
    """

    num_participants: int
    num_volunteers: float
    coverage: float = 0.3
    local_skew: float = 0.0

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

    def numbers_of(
        self,
        numbers: PriceNumbers,
        state: PriceState,
        position: Position,
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Return what a client adds to the sums of the next evaluation; rng is its own."""
        return numbers.encode(state.features(position), position.square, state.query(), rng)

    def advance(
        self, numbers: PriceNumbers, state: PriceState, sums: ArrayLike, num_clients: int
    ) -> PriceState:
        """Take up the sums over all clients.

        Parameters
        ----------
        numbers : PriceNumbers
            How they are packed.
        state : PriceState
            The state for which the clients gave their numbers.
        sums : array_like of int, shape (num_slots,)
            The sums.
        num_clients : int
            ``N``: clients in the sums.

        Returns
        -------
        PriceState
            The same on every node and platform.

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
        seen = numbers.decode(sums, num_clients, state.query())
        opening = not state.evaluations
        state = replace(state, evaluations=state.evaluations + 1)
        if not opening:
            value, shorter = self._values(numbers, state, seen)
            return shorter or self._newton(numbers, state, seen, value)
        if not state.kappa:
            return self._guess(numbers, state, seen, num_clients)
        square, mean = seen.spread[0] / num_clients, seen.spread[1:] / num_clients
        of_classes = mean[: numbers.num_classes]
        kappa = self._kappa(numbers, float(square - of_classes @ of_classes), num_clients)
        state = replace(state, radius=_radius(numbers, square, seen))
        if kappa and abs(kappa / state.kappa - 1.0) > _OTHER_SPREAD:
            return self._newton(numbers, replace(state, kappa=kappa), seen, np.inf)
        return self._newton(numbers, state, seen, self._values(numbers, state, seen)[0])

    def probability(
        self,
        state: PriceState,
        position: Position,
        num_clients: int,
        dither: float | None = None,
    ) -> float:
        """Return the probability with which a client volunteers.

        Parameters
        ----------
        state : PriceState
            Settled or not; equal probabilities where nothing was summed.
        position : Position
            Of the client.
        num_clients : int
            ``N``.
        dither : float, optional
            Uniform in [0, 1), the client's own: it chooses between the two nearest of 16 levels,
            such that the probability is right on average. Without it there are no levels.

        Returns
        -------
        float
            From 0.02 V / N to 1 - 0.02 (1 - V / N).
        """
        share = min(1.0, self.num_volunteers / num_clients)
        if share == 1.0 or not state.evaluations or not state.kappa:
            return share
        lowest, highest = _logit(_FLOOR * share), _logit(1.0 - _FLOOR * (1.0 - share))
        logit = min(max(state.logit(position), lowest), highest)
        if dither is None:
            return _sigmoid(logit)
        step = (highest - lowest) / (_LEVELS - 1)
        level = min(int((logit - lowest) / step), _LEVELS - 2)
        below, above = _sigmoid(lowest + step * level), _sigmoid(lowest + step * (level + 1))
        return above if _sigmoid(logit) - below > dither * (above - below) else below

    def _kappa(self, numbers: PriceNumbers, trace: float, num_clients: int) -> float:
        """Return the price of s; 0 where clients do not differ."""
        if trace < numbers.least_spread(num_clients):
            return 0.0
        return max(rounded([(1.0 + self.local_skew) / (self.coverage * trace)])[0], 2.0**-14)

    def _ridge(self, numbers: PriceNumbers, kappa: float) -> Floats:
        """Return what D adds to the diagonal of the Hessian."""
        ridge = np.full(numbers.num_features, _SLACK)
        c = (1.0 + self.local_skew) / kappa
        ridge[: numbers.num_classes] = c / (2.0 * (self.num_participants - 1))
        return ridge

    def _guess(
        self, numbers: PriceNumbers, state: PriceState, seen: Evaluation, num_clients: int
    ) -> PriceState:
        """Solve for the prices as if probabilities were linear in them, from equal ones."""
        share = self.num_volunteers / num_clients
        equal = rounded([_logit(share), *np.zeros_like(seen.mean)])
        kappa = self._kappa(numbers, seen.trace, num_clients)
        if not kappa:
            return replace(state, settled=True, base=equal, point=equal)
        mean, covariance = seen.mean.copy(), seen.covariance
        of_classes = mean[: numbers.num_classes]
        square = seen.trace + float(of_classes @ of_classes)
        spread = float(seen.spread[0]) / num_clients - square**2
        joint = seen.spread[1:] / num_clients - square * mean
        mean_weight = state.mean_weight
        if numbers.weighted:
            (mean_weight,) = rounded([mean_weight + mean[-1]])
            mean[-1] = 0.0
        pull = mean - (1.0 - share) * kappa * joint
        ridge = np.diag(self._ridge(numbers, kappa))
        b = -np.linalg.solve((1.0 - share) * covariance + ridge, pull)
        b *= min(1.0, _FIRST_STEP / max(_deviation(b, covariance), 1e-9))
        variance = float(b @ covariance @ b - 2.0 * kappa * b @ joint) + kappa**2 * spread
        variance = max(variance, 1e-9)
        # The mean of exp(logit) is more than exp of the mean, by half the variance in the exponent.
        excess = 0.5 * (1.0 - 2.0 * share) * min(variance, 4.0)
        return replace(
            state,
            reach=rounded([min(1.0, variance**-0.5)])[0],
            mean_weight=mean_weight,
            radius=_radius(numbers, square, seen),
            kappa=kappa,
            base=equal,
            point=rounded([_logit(share) + kappa * square - float(b @ mean) - excess, *b]),
        )

    def _values(
        self, numbers: PriceNumbers, state: PriceState, seen: Evaluation
    ) -> tuple[float, PriceState | None]:
        """Return the dual at the point, and where to go on if a shorter step is better."""
        ridge, points = self._ridge(numbers, state.kappa), state.query().points
        duals = [
            softplus / self.num_volunteers - at[0] + float(ridge @ at[1:] ** 2) / 2
            for softplus, at in zip(seen.softplus.tolist(), points, strict=False)
        ]
        value, *shorter = rounded(duals)
        if not np.isfinite(state.base_value):
            return value, None
        best = int(np.argmin([value - _BETTER, *shorter]))
        if best:
            return value, replace(state, point=rounded(points[best]), reach=1.0)
        if value > state.base_value + _BETTER:
            base = np.array(state.base)
            nearer = base + _SHORTEST_STEP * (points[0] - base)
            return value, replace(state, point=rounded(nearer), reach=0.0)
        return value, None

    def _newton(
        self, numbers: PriceNumbers, state: PriceState, seen: Evaluation, value: float
    ) -> PriceState:
        """Take a Newton step from the point, after a correction of a."""
        wanted, found = self.num_volunteers, max(seen.volunteers, 1e-6 * self.num_volunteers)
        a, b = state.point[0], np.array(state.point[1:])
        ridge = self._ridge(numbers, state.kappa)
        # If all grow by one factor: d log(sum P_i) / da = sum q_i / sum P_i.
        slope = min(max(seen.weight / found, 0.02), 1.0)
        shift = min(max(float(np.log(wanted / found)) / slope, -6.0), 6.0)
        grown = float(np.expm1(slope * shift)) / slope * seen.weight
        missing = (found + grown) / wanted - 1.0
        gradient = (seen.moment + grown * seen.mean) / wanted + ridge * b
        weight = seen.weight * float(np.exp(slope * shift)) / wanted
        hessian = weight * seen.covariance + np.diag(ridge)
        step = -np.linalg.solve(hessian, gradient - missing * seen.mean)
        deviation = max(_deviation(step, seen.covariance), 1e-9)
        part = min(1.0, _LONGEST_STEP / deviation)
        a += shift - missing / weight - part * float(seen.mean @ step)
        close = abs(found / wanted - 1.0) < _CLOSE and deviation < _SMALL_STEP
        return replace(
            state,
            settled=close and bool(np.isfinite(value)),
            reach=1.0 if close else rounded([min(1.0, 1.0 / deviation)])[0],
            base_kappa=state.kappa,
            base_value=value,
            base=state.point,
            point=rounded([a, *(b + part * step)]),
            probes=_next_probes(numbers, state.probes, step),
        )


def _next_probes(
    numbers: PriceNumbers, probes: tuple[float, ...], step: Floats
) -> tuple[float, ...]:
    """Return the last steps as directions: along them the curvature matters most."""
    if not probes:
        return probes
    rows = np.vstack([step, np.reshape(probes, (step.size, -1)).T])
    latest = directions(rows, numbers.num_classes, numbers.num_probes)
    return tuple(latest.ravel().tolist())


def _radius(numbers: PriceNumbers, square: float, seen: Evaluation) -> float:
    """Return four times the root of the mean square of the features, or the most it can be."""
    of_weights = float(np.diag(seen.covariance)[numbers.num_classes :].sum())
    return min(numbers.largest_radius, rounded([4.0 * (square + of_weights) ** 0.5])[0])


def _deviation(step: Floats, covariance: Floats) -> float:
    return float(max(step @ covariance @ step, 0.0)) ** 0.5


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logit: float) -> float:
    return float(1.0 / (1.0 + np.exp(-logit)))
