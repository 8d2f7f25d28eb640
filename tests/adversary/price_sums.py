"""What nodes read with prices, and the best guess of label distributions from those sums.

`Readings` are the sums of some registration periods, with exactly the noise that nodes add. Anyone
who reads them knows each sum's prices, its members and the variance of its noise. `guess` is the
posterior mean for the clients that the attacker does not know. Its prior is the distribution from
which all clients were drawn, so no guess has a smaller squared error. The remaining clients enter
as one Gaussian vector, with the covariance of a client's contributions to all sums.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import UNIT, PriceDesign, PriceState, volunteers_at_sums
from dubhe_flwr.core.randomness import gaussian
from dubhe_flwr.protocol.wire.messages import COMMITTEE_SIZE
from dubhe_flwr.rules import Frame, Prices

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NUM_CLASSES: Final = 10
PARTICIPANTS: Final = {13: 12, 20: 4, 50: 30, 100: 60, 500: 100, 2000: 100}
"""K by N. From 50 clients on, the server asks for so many participants that more volunteer at sums
than with few participants: each client then stands out more from the noise."""

TINY: Final = 1e-9  # for shares that are added up

_CONCENTRATION: Final = 3.0
_UNIT_NOISE: Final = 2e-2
"""The noise that an attacker assumes where there is none: a standard deviation, in clients."""

_DRAWN: Final = 3000
_WALKERS: Final = 400
_DIRECTIONS: Final = 64
_MOVES: Final = 8


def common_law(num_classes: int = NUM_CLASSES) -> Floats:
    """Return the Dirichlet parameters of a client: class 0 is ten times as common as the last."""
    common = np.geomspace(10.0, 1.0, num_classes)
    return np.asarray(_CONCENTRATION * common / common.sum())


def without_the_last(law: Floats) -> Floats:
    """Return the law of clients without data of the last class."""
    return np.asarray(np.append(law[:-1], 0.0) * law.sum() / law[:-1].sum())


def holder_of_the_last(law: Floats) -> Floats:
    """Return the law of a client whose data is, on average, half of the last class."""
    others = without_the_last(law)
    return np.append(others[:-1], others.sum()) / 2.0


def drawn(law: Floats, number: int, rng: np.random.Generator) -> Floats:
    """Return label distributions, shape (number, C)."""
    return np.asarray(_distributions(_log_gammas(law, number, rng)))


def _log_gammas(law: Floats, number: int, rng: np.random.Generator) -> Floats:
    """Return logarithms of gamma numbers, without underflow for parameters below 1."""
    held = law[law > 0]
    logs = np.full((number, law.size), -np.inf)
    boost = np.log(rng.random((number, held.size))) / held
    logs[:, law > 0] = np.log(rng.gamma(held + 1.0, size=(number, held.size))) + boost
    return logs


def _distributions(logs: Floats) -> Floats:
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


class Sum(NamedTuple):
    """One sum as a node reads it, in clients."""

    opening: bool
    logit: tuple[float, Floats, float]  # of P: a constant, p times a vector, - kappa ||p||^2
    total: Floats
    variance: Floats  # of one party's noise, shape (num_slots,)
    noise: Floats  # of each node or member, shape (parties, num_slots); only its own party knows it
    num_noisy: int  # parties that added noise
    present: Mask  # the clients in it, shape (N,)
    entered: Mask  # the clients whose labels are in it, shape (N,)

    def answers(self, labels: Floats) -> Floats:
        """Return the clients' contributions, shape (..., num_slots)."""
        squares = (labels**2).sum(axis=-1, keepdims=True)
        if self.opening:
            return np.concatenate([labels, squares], axis=-1)
        constant, linear, kappa = self.logit
        logits = constant + labels @ linear[:, None] - kappa * squares
        return np.asarray(labels / (1.0 + np.exp(-logits)))


Attendance = Callable[[int, int], Mask]
"""Maps period and exchange to the clients that are present, shape (N,)."""


@dataclass
class Readings:
    """The sums that a node reads."""

    labels: Floats  # label distributions of all clients, shape (N, C)
    seed: int
    attendance: Attendance | None = None  # who is in a sum; by default all, always
    noise: float = Prices.noise  # sigma in an epoch that does not start from the last prices
    budget: float = 1.0  # sums that labels enter at most, as a multiple of what the rule allows
    num_joined: int | None = None  # by default all
    committee: bool = False  # whether three members add noise, instead of the nodes
    warm: bool = False  # whether each period starts from the last prices
    sums: list[Sum] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Go through the registration periods."""
        self.rng = np.random.default_rng([self.seed, 7])
        joined = self.num_joined or len(self.labels)
        num_participants = PARTICIPANTS[joined]
        self.rule = Prices(noise=self.noise)
        sizes = num_participants, volunteers_at_sums(joined, num_participants)
        self.design = PriceDesign(NUM_CLASSES, *sizes, self.rule.coverage)
        self.spent = np.zeros(len(self.labels))
        # Sums that are read, as a multiple of what the rule allows; not all clients are in each.
        self.left = self.budget * len(self.labels) / joined
        self.last = PriceState()
        period = 0
        while self.left > TINY:
            self._period(period)
            period += 1

    def _period(self, period: int) -> None:
        continues = self.warm and self.last.num_sums > 0
        state = self.last.renewed() if continues else PriceState()
        self.frame = Frame(NUM_CLASSES, 2000, continues=continues)
        self.design = replace(self.design, sigma=self.rule._sigma(self.frame))
        most = self.rule.num_sums(self.frame)
        # Without noise the same number of sums.
        self.cost = 1.0 / Prices()._budget(self.frame)
        while self.left > TINY and not state.settled and state.num_sums < most:
            everybody = np.ones(len(self.labels), dtype=bool)
            attendance = self.attendance
            present = everybody if attendance is None else attendance(period, state.num_sums)
            state = self._exchange(state, present)
        self.last = state

    @property
    def _is_spent(self) -> Mask:
        """Whether a client's labels enter no further sum."""
        return np.asarray(self.spent + self.cost > self.budget + TINY)

    def _exchange(self, state: PriceState, present: Mask) -> PriceState:
        number, opening = int(present.sum()), not state.num_sums
        deviations = self.design.deviations(number, opening=opening)
        numbers = self.rule._fixed_point(self.frame, opening=opening)
        entered = present & ~self._is_spent
        self.spent += entered * self.cost
        self.left -= self.cost
        parties, share = (COMMITTEE_SIZE, 1.0) if self.committee else (number, 2.0 / number)
        scaled = np.tile(deviations, parties) * (UNIT * share**0.5)
        noise = gaussian(scaled, 1.0 - self.rng.random((2, scaled.size))).reshape(parties, -1)
        of_all = np.zeros((COMMITTEE_SIZE if self.committee else len(present), deviations.size))
        of_all[... if self.committee else present] = noise / UNIT
        logit, variance = self._logit(state), deviations**2 * share
        told = Sum(opening, logit, np.zeros(0), variance, of_all, parties, present, entered)
        values = (told.answers(self.labels) * entered[:, None])[present]
        added = numbers.encode(values, 0 if self.committee else noise).sum(axis=0)
        if self.committee:
            added += noise.sum(axis=0)
        means = numbers.means(added, number)
        self.sums.append(told._replace(total=means * number))
        return self.design.advance(state, means, number, parties * share)

    def _logit(self, state: PriceState) -> tuple[float, Floats, float]:
        if not state.num_sums:
            return 0.0, np.zeros(NUM_CLASSES), 0.0
        scale, point = self.design._scale(state.opening), np.array(state.point)
        target, prices = scale.target, point[1:]
        constant = point[0] - prices @ target - scale.kappa * target @ target
        return float(constant), prices + 2.0 * scale.kappa * target, scale.kappa


def answers(sums: list[Sum], labels: Floats) -> Floats:
    """Return the clients' contributions to all sums, shape (..., number of all slots)."""
    return np.concatenate([each.answers(labels) for each in sums], axis=-1)


def _stretched(sums: list[Sum], values: NDArray[np.generic] | list[float]) -> Floats:
    """Repeat each sum's value for each of its slots."""
    sizes = [each.total.size for each in sums]
    return np.repeat(np.asarray(values, dtype=np.float64), sizes, axis=0)


@dataclass(frozen=True)
class Attack:
    """What an attacker knows, and its best guess."""

    readings: Readings  # the sums that it reads
    unknown: list[int]  # clients whose labels it guesses
    law: Floats  # the Dirichlet law of these clients, shape (C,)
    # The law of the other clients; None if the attacker knows their labels, but not their noise.
    others: Floats | None = None
    # Colluding parties: the last clients, whose labels and noise are known, or the last members,
    # whose noise is known.
    colluding: int = 0

    @cached_property
    def _entered(self) -> Floats:
        """Whether the unknown clients are in each slot, shape (m, number of slots)."""
        sums = self.readings.sums
        return np.asarray(_stretched(sums, np.array([s.entered[self.unknown] for s in sums])).T)

    def _whitened(self) -> tuple[Floats, Floats]:
        """Return the map to the most informative directions, and the observations along them."""
        sums, labels = self.readings.sums, self.readings.labels
        rng = np.random.default_rng([self.readings.seed, 11])
        others = np.ones(len(labels), dtype=bool)
        others[self.unknown] = False
        known = others & (
            (np.arange(len(labels)) >= len(labels) - self.colluding) | (self.others is None)
        )
        parts, noise = list[Floats](), list[Floats]()
        for each in sums:
            own_noise = each.noise[len(each.noise) - self.colluding :].sum(axis=0)
            told = each.answers(labels[each.entered & known]).sum(axis=0)
            parts.append(each.total - told - own_noise)
            noise.append(each.variance * (each.num_noisy - self.colluding))
        covariance = np.diag(np.maximum(np.concatenate(noise), _UNIT_NOISE**2))
        seen = np.concatenate(parts)
        if self.others is not None:
            entered = np.array([s.entered & others & ~known for s in sums], dtype=np.float64)
            sample = answers(sums, drawn(self.others, _DRAWN, rng))
            common = _stretched(sums, _stretched(sums, entered @ entered.T).T)
            seen -= sample.mean(axis=0) * _stretched(sums, entered.sum(axis=1))
            covariance += common * np.cov(sample.T)
        inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        present = self._entered.max(axis=0)
        signals = (answers(sums, drawn(self.law, _DRAWN // 3, rng)) * present) @ inverse.T
        directions = np.linalg.svd(signals, full_matrices=False)[2][:_DIRECTIONS] @ inverse
        return directions, directions @ seen

    def guess(self) -> Floats:
        """Return the mean of the posterior, shape (C,), by tempering with differential moves.

        All unknown clients get the same guess, since nothing tells them apart.
        """
        directions, seen = self._whitened()
        rng = np.random.default_rng([self.readings.seed, 13])
        held = self.law > 0
        shape = _WALKERS, len(self.unknown), int(held.sum())
        dimensions = 2 * shape[1] * shape[2]
        law, at = self.law[held], _log_gammas(self.law, shape[0] * shape[1], rng)[:, held]
        at = at.reshape(shape)
        embedding = np.eye(NUM_CLASSES)[held]

        def fit(points: Floats) -> Floats:
            added = answers(self.readings.sums, _distributions(points) @ embedding)
            found = (added * self._entered).sum(axis=1) @ directions.T
            return np.asarray(-((seen - found) ** 2).sum(axis=1) / 2.0)

        def prior(points: Floats) -> Floats:
            return np.asarray((law * points - np.exp(points)).sum(axis=(1, 2)))

        heat, fits, priors = 0.0, fit(at), prior(at)
        half = _WALKERS // 2
        while heat < 1.0:
            step = _next_heat(fits, 1.0 - heat)
            heat += step
            weights = np.exp(step * (fits - fits.max()))
            chosen = rng.choice(_WALKERS, _WALKERS, p=weights / weights.sum())
            at, fits, priors = at[chosen], fits[chosen], priors[chosen]
            for move in range(_MOVES if heat < 1.0 else 4 * _MOVES):
                order = rng.permutation(_WALKERS)
                for moving, still in ((order[:half], order[half:]), (order[half:], order[:half])):
                    first, second = rng.choice(still, (2, half))
                    if move % 5 == 4:
                        size = np.ones(())
                    else:
                        size = rng.uniform(0.2, 1.2, (half, 1, 1)) * 1.2 / dimensions**0.5
                    ahead = at[moving] + size * (at[first] - at[second])
                    ahead += 1e-4 * rng.normal(size=ahead.shape)
                    its_fit, its_prior = fit(ahead), prior(ahead)
                    gain = heat * (its_fit - fits[moving]) + its_prior - priors[moving]
                    taken = np.log(rng.random(half)) < gain
                    rows = moving[taken]
                    at[rows] = ahead[taken]
                    fits[rows], priors[rows] = its_fit[taken], its_prior[taken]
        return np.asarray((_distributions(at) @ embedding).mean(axis=(0, 1)))


def _next_heat(fits: Floats, most: float) -> float:
    """Return the step, at most `most`, that leaves a third of the walkers effective."""

    def leaves_enough(step: float) -> bool:
        weights = np.exp(step * (fits - fits.max()))
        return bool(weights.sum() ** 2 >= (weights**2).sum() * _WALKERS / 3)

    if leaves_enough(most):
        return most
    low, high = 0.0, most
    while not low or high > 1.1 * low:
        middle = (low + high) / 2.0
        low, high = (middle, high) if leaves_enough(middle) else (low, middle)
    return low


def by_one_share(law: Floats, own: Floats, label: int) -> Floats:
    """Return the best guess from a client's share of one class alone."""
    guess = np.array(law)
    guess[label] = 0.0
    guess *= (1.0 - own[label]) / guess.sum()
    guess[label] = own[label]
    return guess


def linear_guess(readings: Readings, law: Floats) -> Floats:
    """Return the best linear guess for all clients at once, shape (N, C)."""
    sums = readings.sums
    rng = np.random.default_rng([readings.seed, 17])
    draws = drawn(law, _DRAWN, rng)
    sample = answers(sums, draws)
    entered = np.array([each.entered for each in sums], dtype=np.float64)
    noise = np.concatenate([each.variance * each.present.sum() for each in sums])
    common = _stretched(sums, _stretched(sums, entered @ entered.T).T)
    covariance = common * np.cov(sample.T) + np.diag(np.maximum(noise, _UNIT_NOISE**2))
    seen = np.concatenate([each.total for each in sums])
    seen -= sample.mean(axis=0) * _stretched(sums, entered.sum(axis=1))
    gain = np.linalg.solve(covariance, seen)
    mean = law / law.sum()
    crossed = (draws - mean).T @ (sample - sample.mean(axis=0)) / len(draws)
    return np.asarray(mean + (_stretched(sums, entered).T * gain) @ crossed.T)
