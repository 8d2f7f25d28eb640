r"""Prices: participation from a client's own distribution, fitted to sums over all of them.

Client i has the position ``x_i = w_i (p_i - t)``: its label distribution less the wanted one t,
times its weight, 1 where all weigh the same. With ``s_i = ||x_i||^2`` it volunteers with

    logit P_i = a + b . x_i - kappa s_i,        kappa = (1 + local_skew) / c

where b is a vector of C class prices: who holds what is scarce is asked more often.

*What is minimised.* Of V volunteers, drawn one by one, K train. With ``m = sum P_i x_i / V`` the
square of the mean position of the K is ``||m||^2 + (sum P_i s_i / V - ||m||^2) / K`` on average:
bias and variance. K times that, the clients' own skew and the entropy H of the draws, each at its
price, are

    F(P) = (K - 1) ||m||^2 + (1 + local_skew) sum P_i s_i / V - c / V sum H(P_i),  sum P_i = V

the maximum-entropy (Poisson) design of survey sampling. F is convex. Its Lagrangian is stationary
where ``c logit P_i = c a - 2 (K - 1) m . x_i - (1 + local_skew) s_i``, which has the form above
with ``b = -2 (K - 1) m / c``; and -F / c has the dual

    D(a, b) = 1/V sum softplus(a + b . x_i - kappa s_i) - a + r/2 ||b||^2,   r = c / (2 (K - 1))

to be minimised. ``dD/da = sum P_i / V - 1`` and ``dD/db = m + r b``, and the Hessian is the sum of
``P_i (1 - P_i) z_i z_i^T / V`` with ``z = (1, x)``, and r on the diagonal of b. With all w_i = 1
and ``u . p_i`` the same for all i, as for the uniform u, these are the formulas for p_i in place
of x_i with ``- 2 K u . m`` in F and ``- K / (K - 1) u . b`` in D.

*How it is solved.* D and its derivatives are sums over clients, which all nodes get decrypted; each
node takes the same Newton steps. The sums at the opening travel with the registration: where
all are equally likely they give c, `coverage` times the trace of the covariance of x, and a linear
guess. An exchange then evaluates everything at the point of the state, and the softplus alone
at shorter steps, so that a step that went too far costs one exchange. Before each step a is
corrected as if all P_i grew by one factor, which is exact where they are small.

*The same prices everywhere.* All that is decided rests on integer sums. What a solve returns is
rounded to multiples of 2^-14, far coarser than the last bits in which platforms differ, and
far finer than what a probability needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.price_sums import SHORTER_STEPS, Evaluation, PriceNumbers
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError

__all__ = ["PriceDesign", "PriceState", "position"]

Floats = NDArray[np.float64]

_GRID: Final = 2.0**14
_LEVELS: Final = 16
_FLOOR: Final = 0.02
_MOST_EXCHANGES: Final = 8
_CLOSE: Final = 0.02
"""Of V, within which its sum is met once prices are settled."""

_SMALL_STEP: Final = 0.1
_FIRST_STEP: Final = 2.0
_LONGEST_STEP: Final = 8.0
"""Steps are measured by the standard deviation of the change of the logits."""

_SHORTEST_STEP: Final = 0.05
_BETTER: Final = 1e-3


def position(distribution: ArrayLike, target: ArrayLike, weight: float = 1.0) -> Floats:
    """Return ``x = w (p - t)``.

    Parameters
    ----------
    distribution : array_like of int, shape (C,)
        ``p_l`` in fixed point, from `fixed_point_distribution`.
    target : array_like of float, shape (C,)
        ``t``: the distribution that is wanted of all who train together.
    weight : float (default: 1)
        ``w``.

    Returns
    -------
    ndarray of float64, shape (C,)
        Components that sum to 0.

    Examples
    --------
    >>> position([2**20, 0], [0.5, 0.5]).tolist()
    [0.5, -0.5]
    """
    shares = np.asarray(distribution, dtype=np.float64) / FIXED_POINT_SCALE
    return np.asarray(weight * (shares - np.asarray(target, dtype=np.float64)))


@dataclass(frozen=True, slots=True)
class PriceState:
    """What all nodes know of the prices of an epoch, the same for each of them.

    Parameters
    ----------
    evaluations : int
        How many sums it rests on, the opening included.
    settled : bool
        Whether V is met and the last step was small: no exchange is needed any more.
    reach : float
        How much of the way from `base` to `point` the known sums support.
    radius : float
        Distance beyond which the curvature counts nodes as nearer.
    kappa, base_kappa : float
        Prices of ``||x||^2`` at the point and at the base; 0 where all are equally likely.
    base_value : float
        The dual at the base; infinite where it is not known.
    base, point : tuple of float, 1 + C each
        ``(a, b)`` where the last step began, and where to evaluate next.
    probes : tuple of float, C times 0 or 4
        Directions along which to sum the curvature, where the matrix is too large.
    """

    evaluations: int
    settled: bool
    reach: float
    radius: float
    kappa: float
    base_kappa: float
    base_value: float
    base: tuple[float, ...]
    point: tuple[float, ...]
    probes: tuple[float, ...]

    @classmethod
    def first(cls, numbers: PriceNumbers) -> Self:
        """Return the state of a first epoch: all are equally likely."""
        classes, num_probes = numbers.num_classes, numbers.num_probes
        at = (0.0,) * (1 + classes)
        signs = generator(0, "probes", classes).integers(2, size=(classes, num_probes))
        probes = _directions((2.0 * signs - 1.0).T, num_probes) if num_probes else np.empty((0, 0))
        flat = tuple(probes.ravel().tolist())
        return cls(0, False, 1.0, numbers.largest_radius, 0.0, 0.0, np.inf, at, at, flat)

    def renewed(self) -> Self:
        """Return the state of the next epoch, which begins with the prices of this one."""
        at, kappa = self.prices()
        prices = _rounded(at)
        return replace(
            self,
            evaluations=0,
            settled=False,
            reach=1.0,
            kappa=kappa,
            base_kappa=kappa,
            base_value=np.inf,
            base=prices,
            point=prices,
        )

    def prices(self) -> tuple[Floats, float]:
        """Return ``(a, b)`` and ``kappa`` that hold if there is no further exchange."""
        base, point = np.array(self.base), np.array(self.point)
        kappa = self.base_kappa + self.reach * (self.kappa - self.base_kappa)
        return base + self.reach * (point - base), kappa

    def points(self) -> Floats:
        """Return where to evaluate: the point, and after the opening the shorter steps to it."""
        base, point = np.array(self.base), np.array(self.point)
        steps = SHORTER_STEPS if self.evaluations else ()
        return np.array([point, *(base + length * (point - base) for length in steps)])

    def as_floats(self) -> tuple[float, ...]:
        """Return all of it as a flat tuple, whose length depends on C alone."""
        head = (self.evaluations, self.settled, self.reach, self.radius)
        head += (self.kappa, self.base_kappa, self.base_value)
        return (*map(float, head), *self.base, *self.point, *self.probes)

    @classmethod
    def from_floats(cls, numbers: PriceNumbers, values: Sequence[float]) -> Self:
        """Undo `as_floats`; `SettingsError` if there are more or fewer numbers than belong."""
        width, num_probes = 1 + numbers.num_classes, numbers.num_probes
        wanted = 7 + 2 * width + numbers.num_classes * num_probes
        if len(values) != wanted:
            raise SettingsError(f"{len(values)} floats are no state of prices; give {wanted}.")
        evaluations, settled, *rest = values[:7]
        base, point = values[7 : 7 + width], values[7 + width : 7 + 2 * width]
        probes = tuple(values[7 + 2 * width :])
        return cls(int(evaluations), bool(settled), *rest, tuple(base), tuple(point), probes)


@dataclass(frozen=True, slots=True)
class PriceDesign:
    """What prices are fitted for.

    Parameters
    ----------
    num_participants : int
        ``K``, at least 2.
    num_volunteers : float
        ``V``: volunteers of a draw on average.
    coverage : float
        Price of calling few clients again and again, relative to the trace of the covariance of x.
    local_skew : float
        Price of the skew of the clients that train.

    Raises
    ------
    SettingsError
        If a setting is out of range.

    Examples
    --------
    Half of the clients hold class 0 and a tenth class 1; the others hold both:

    >>> p = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [50, 10, 40], axis=0)
    >>> numbers = PriceNumbers(num_classes=2, max_clients=100)
    >>> design, state = PriceDesign(5, 20.0, coverage=1.0), PriceState.first(numbers)
    >>> rng = np.random.default_rng(0)
    >>> while not state.settled:
    ...     sums = sum(design.numbers_of(numbers, state, x, rng) for x in p - 0.5)
    ...     state = design.advance(numbers, state, sums, len(p))
    >>> [round(design.probability(state, x - 0.5, 100, dither=None), 2) for x in p[[0, 50, 60]]]
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
        self, numbers: PriceNumbers, state: PriceState, x: Floats, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return what a node at position x adds to the sums of the next evaluation."""
        return numbers.encode(
            x,
            state.points(),
            state.kappa,
            state.radius,
            _matrix(numbers, state),
            rng,
            opening=not state.evaluations,
        )

    def advance(
        self, numbers: PriceNumbers, state: PriceState, sums: ArrayLike, num_clients: int
    ) -> PriceState:
        """Take up the sums over all nodes.

        Parameters
        ----------
        numbers : PriceNumbers
            How they are packed.
        state : PriceState
            The state for which the nodes gave their numbers.
        sums : array_like of int, shape (num_slots,)
            The sums.
        num_clients : int
            ``N``: nodes in the sums.

        Returns
        -------
        PriceState
            The same on every node and platform.

        Raises
        ------
        RefusedError
            If no nodes can have given such numbers.
        SettingsError
            If V is not below N.
        """
        if self.num_volunteers >= num_clients:
            raise SettingsError(
                f"num_volunteers={self.num_volunteers} must be below the {num_clients} nodes."
            )
        opening, probes = not state.evaluations, _matrix(numbers, state)
        seen = numbers.decode(
            sums, num_clients, state.kappa, state.radius, probes, opening=opening
        )
        state = replace(state, evaluations=state.evaluations + 1)
        if opening and not state.kappa:
            return self._guess(numbers, state, seen, num_clients)
        if opening:
            mean = _closed(seen.spread[1:]) / num_clients
            square = float(seen.spread[0]) / num_clients
            trace = square - float(mean @ mean)
            state = replace(state, radius=_radius(numbers, square))
            kappa = self._kappa(numbers, trace, num_clients)
            if kappa and abs(kappa / state.kappa - 1.0) > 0.1:
                return self._newton(replace(state, kappa=kappa), seen, np.inf)
        value, shorter = self._values(state, seen)
        if shorter is not None:
            return shorter
        return self._newton(state, seen, value)

    def probability(
        self,
        state: PriceState,
        x: Floats,
        num_clients: int,
        dither: float | None,
    ) -> float:
        """Return the probability with which a node at position x volunteers.

        Parameters
        ----------
        state : PriceState
            Settled or not; equal probabilities where nothing was summed.
        x : ndarray, shape (C,)
            Of `position`.
        num_clients : int
            ``N``.
        dither : float or None
            Uniform in [0, 1), the node's own: it chooses between the two nearest of 16 levels such
            that the probability is right on average. With None there are no levels.

        Returns
        -------
        float
            From 0.02 V/N to 1 - 0.02 (1 - V/N).
        """
        share = min(1.0, self.num_volunteers / num_clients)
        (a, *b), kappa = state.prices()[0].tolist(), state.prices()[1]
        if share == 1.0 or not state.evaluations or not kappa:
            return share
        lowest, highest = _logit(_FLOOR * share), _logit(1.0 - _FLOOR * (1.0 - share))
        logit = a + float(np.dot(b, x)) - kappa * float(x @ x)
        logit = min(max(logit, lowest), highest)
        if dither is None:
            return _sigmoid(logit)
        step = (highest - lowest) / (_LEVELS - 1)
        level = min(int((logit - lowest) / step), _LEVELS - 2)
        below, above = (_sigmoid(lowest + step * number) for number in (level, level + 1))
        return above if _sigmoid(logit) - below > dither * (above - below) else below

    def _kappa(self, numbers: PriceNumbers, trace: float, num_clients: int) -> float:
        """Return the price of ||x||^2; 0 where clients do not differ."""
        if trace < numbers.least_spread(num_clients):
            return 0.0
        kappa = (1.0 + self.local_skew) / (self.coverage * trace)
        return max(1.0, round(kappa * _GRID)) / _GRID

    def _ridge(self, kappa: float) -> float:
        return (1.0 + self.local_skew) / kappa / (2.0 * (self.num_participants - 1))

    def _guess(
        self, numbers: PriceNumbers, state: PriceState, seen: Evaluation, num_clients: int
    ) -> PriceState:
        """Solve for the prices as if probabilities were linear in them, from equal ones."""
        share = self.num_volunteers / num_clients
        equal = _rounded([_logit(share), *np.zeros_like(seen.mean)])
        kappa = self._kappa(numbers, seen.trace, num_clients)
        if not kappa:
            return replace(state, settled=True, base=equal, point=equal)
        mean, covariance = seen.mean, seen.covariance
        square = seen.trace + float(mean @ mean)
        spread = float(seen.spread[0]) / num_clients - square**2
        joint = _closed(seen.spread[1:]) / num_clients - square * mean
        ridge = self._ridge(kappa) * np.eye(mean.size)
        pull = mean - (1.0 - share) * kappa * joint
        b = -np.linalg.solve((1.0 - share) * covariance + ridge, pull)
        b *= min(1.0, _FIRST_STEP / max(_deviation(b, covariance), 1e-9))
        variance = float(b @ covariance @ b - 2.0 * kappa * b @ joint) + kappa**2 * spread
        variance = max(variance, 0.0)
        # The mean of exp(logit) exceeds that of the mean logit by half the variance.
        excess = 0.5 * (1.0 - 2.0 * share) * min(variance, 4.0)
        a = _logit(share) + kappa * square - float(b @ mean) - excess
        return replace(
            state,
            radius=_radius(numbers, square),
            kappa=kappa,
            reach=_rounded([min(1.0, 1.0 / max(variance, 1e-9) ** 0.5)])[0],
            base=equal,
            point=_rounded([a, *b]),
        )

    def _values(self, state: PriceState, seen: Evaluation) -> tuple[float, PriceState | None]:
        """Return the dual at the point; and where to go if a shorter step is better."""
        ridge, points = self._ridge(state.kappa), state.points()
        duals = [
            softplus / self.num_volunteers - at[0] + ridge / 2 * float(at[1:] @ at[1:])
            for softplus, at in zip(seen.softplus.tolist(), points, strict=False)
        ]
        value, *shorter = _rounded(duals)
        if not np.isfinite(state.base_value):
            return value, None
        best = int(np.argmin([value - _BETTER, *shorter]))
        if best:
            return value, replace(state, point=_rounded(points[best]), reach=1.0)
        if value > state.base_value + _BETTER:
            base = np.array(state.base)
            nearer = base + _SHORTEST_STEP * (points[0] - base)
            return value, replace(state, point=_rounded(nearer), reach=0.0)
        return value, None

    def _newton(self, state: PriceState, seen: Evaluation, value: float) -> PriceState:
        """Take a Newton step from the point, after a correction of a."""
        wanted, found = self.num_volunteers, max(seen.volunteers, 1e-6 * self.num_volunteers)
        a, b = state.point[0], np.array(state.point[1:])
        # If all grow by one factor: d log sum P_i / da = sum q_i / sum P_i.
        slope = min(max(seen.weight / found, 0.02), 1.0)
        shift = min(max(np.log(wanted / found) / slope, -6.0), 6.0)
        grown = np.expm1(slope * shift) / slope * seen.weight
        missing = (found + grown) / wanted - 1.0
        gradient = (seen.moment + grown * seen.mean) / wanted + self._ridge(state.kappa) * b
        weight = seen.weight * np.exp(slope * shift) / wanted
        hessian = weight * seen.covariance + self._ridge(state.kappa) * np.eye(b.size)
        step = -np.linalg.solve(hessian, gradient - missing * seen.mean)
        deviation = _deviation(step, seen.covariance)
        part = min(1.0, _LONGEST_STEP / max(deviation, 1e-9))
        a += shift - missing / weight - part * float(seen.mean @ step)
        close = abs(found / wanted - 1.0) < _CLOSE and deviation < _SMALL_STEP
        return replace(
            state,
            settled=bool(close and np.isfinite(value)),
            reach=1.0 if close else _rounded([min(1.0, 1.0 / max(deviation, 1e-9))])[0],
            base_kappa=state.kappa,
            base_value=value,
            base=state.point,
            point=_rounded([a, *(b + part * step)]),
            probes=_next_probes(state.probes, step),
        )


def _next_probes(probes: tuple[float, ...], step: Floats) -> tuple[float, ...]:
    """Return the last steps as directions: there the curvature matters most."""
    if not probes:
        return probes
    directions = np.array(probes).reshape(step.size, -1)
    latest = _directions(np.vstack([step - step.mean(), directions.T]), directions.shape[1])
    return tuple(latest.ravel().tolist())


def _directions(rows: Floats, number: int) -> Floats:
    """Return the first orthonormal columns that rows span, shape (C, number)."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    columns = np.linalg.qr(rows.T)[0][:, :number]
    return np.asarray(np.rint(columns * _GRID) / _GRID)


def _radius(numbers: PriceNumbers, square: float) -> float:
    """Return four times the root of the mean square of ||x||, or the most that it can be."""
    return min(numbers.largest_radius, _rounded([4.0 * square**0.5])[0])


def _matrix(numbers: PriceNumbers, state: PriceState) -> Floats:
    return np.reshape(state.probes, (numbers.num_classes, numbers.num_probes))


def _closed(components: Floats) -> Floats:
    """Append the last component, since those of x sum to 0."""
    return np.append(components, -components.sum())


def _deviation(step: Floats, covariance: Floats) -> float:
    return float(max(step @ covariance @ step, 0.0)) ** 0.5


def _rounded(values: ArrayLike) -> tuple[float, ...]:
    return tuple((np.rint(np.asarray(values) * _GRID) / _GRID).tolist())


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logit: float) -> float:
    return float(1.0 / (1.0 + np.exp(-logit)))
