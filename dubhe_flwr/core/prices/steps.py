"""Newton's steps on the dual of prices, from what the sums of one evaluation say."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dubhe_flwr.core.prices.evaluation import Evaluation, Floats
from dubhe_flwr.core.prices.state import PriceState, directions, rounded
from dubhe_flwr.core.prices.sums import PriceNumbers

_CLOSE: Final = 0.02
"""Of V, within which its sum is met once prices are settled."""

_SMALL_STEP: Final = 0.1
_SMALL_GAIN: Final = 1e-3
_FIRST_STEP: Final = 2.0
_LONGEST_STEP: Final = 30.0
"""Steps are measured by the standard deviation of the change of the logits."""

_LONGEST_SHIFT: Final = 6.0
_BETTER: Final = 1e-3
_SLACK: Final = 1e-5
"""Of the condition on the weights: it keeps the Hessian regular where weights are the same."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a step needs to know beside the state and the sums.

    V, N, ``pull = r kappa``, the same for all kappa, and c relative to the trace of the covariance.
    """

    numbers: PriceNumbers
    num_volunteers: float
    num_clients: int
    pull: float
    coverage: float

    def ridge(self, kappa: float) -> Floats:
        """Return what the dual adds to the diagonal of the Hessian of the softplus."""
        ridge = np.full(self.numbers.num_features, _SLACK)
        ridge[: self.numbers.num_classes] = self.pull / kappa
        return ridge

    def duals(self, state: PriceState, seen: Evaluation) -> Floats:
        """Return the dual at each of the points that were evaluated."""
        points = state.query().points
        softplus = seen.softplus / self.num_volunteers - points[:, 0]
        return np.asarray(softplus + points[:, 1:] ** 2 @ self.ridge(state.kappa) / 2)


def first_guess(problem: Problem, state: PriceState, seen: Evaluation) -> PriceState:
    """Return the prices that were right if the probabilities were linear in them.

    Where enough clients remember prices, these are the guess. The state has the kappa of the prices
    to find, or 0 where clients do not differ. What was seen is of the opening, where all were
    equally likely.
    """
    numbers, share = problem.numbers, problem.num_volunteers / problem.num_clients
    even = float(np.log(share) - np.log1p(-share))
    equal = rounded([even, *np.zeros_like(seen.mean)])
    if not (kappa := state.kappa):
        return replace(state, settled=True, base=equal, point=equal)
    mean, covariance = seen.mean.copy(), seen.covariance
    of_classes = mean[: numbers.num_classes]
    square = seen.trace + float(of_classes @ of_classes)
    spread = float(seen.spread[0]) / problem.num_clients - square**2
    joint = seen.spread[1:] / problem.num_clients - square * mean
    mean_weight = state.mean_weight
    if numbers.weighted:
        (mean_weight,) = rounded([mean_weight + mean[-1]])
        mean[-1] = 0.0
    hessian = (1.0 - share) * covariance + np.diag(problem.ridge(kappa))
    b: Floats = np.negative(np.linalg.solve(hessian, mean - (1.0 - share) * kappa * joint))
    b *= min(1.0, _FIRST_STEP / max(_deviation(b, covariance), 1e-9))
    variance = float(b @ covariance @ b - 2.0 * kappa * b @ joint) + kappa**2 * spread
    variance = max(variance, 1e-9)
    # The mean of exp(logit) is above exp of the mean, by half the variance in the exponent.
    excess = 0.5 * (1.0 - 2.0 * share) * min(variance, 4.0)
    point = rounded([even + kappa * square - float(b @ mean) - excess, *b])
    reach = rounded([min(1.0, variance**-0.5)])[0]
    base, base_kappa = equal, 0.0
    if seen.remembered.size:
        # The guess is where to go back to, if what clients remember leads away from it.
        base, base_kappa = point, kappa
        point, reach = rounded(seen.remembered), 1.0
    of_weights = float(np.diag(covariance)[numbers.num_classes :].sum())
    # Four times the root of the mean square of the features, or the most it can be.
    (radius,) = rounded([4.0 * np.sqrt(square + of_weights)])
    return replace(
        state,
        reach=reach,
        mean_weight=mean_weight,
        radius=min(numbers.largest_radius, radius),
        base_kappa=base_kappa,
        base=base,
        point=point,
    )


def shorter_step(problem: Problem, state: PriceState, seen: Evaluation) -> PriceState | None:
    """Return where to go on if the dual is lower after a shorter step; None if it is not."""
    if not state.reach:  # It was shortened before, and a Newton step leads down from anywhere.
        return None
    points, values = state.query().points, problem.duals(state, seen)
    values[0] -= max(_BETTER, problem.numbers.softplus_noise(problem.num_volunteers))
    if not (best := int(np.argmin(rounded(values)))):
        return None
    # Nothing is known there but the dual: until it is evaluated the base holds.
    is_remembered = state.evaluations == 2 and state.base_kappa  # and the base the first guess
    point = state.base if is_remembered else rounded(points[best])
    return replace(state, point=point, reach=0.0)


def newton_step(problem: Problem, state: PriceState, seen: Evaluation) -> PriceState:
    """Take a Newton step from the point, after a correction of a."""
    wanted = problem.num_volunteers
    found = max(seen.volunteers, 1e-6 * wanted)
    a, b = state.point[0], np.array(state.point[1:])
    ridge = problem.ridge(state.kappa)
    slope = min(max(seen.weight / found, 0.02), 1.0)
    shift = _shift(wanted / found, slope)
    factor = float(np.exp(slope * shift))
    grown = (factor - 1.0) / slope * seen.weight
    missing = (found + grown) / wanted - 1.0
    gradient = (seen.moment + grown * seen.mean) / wanted + ridge * b
    weight = seen.weight * factor / wanted
    hessian = weight * seen.covariance + np.diag(ridge)
    step = -np.linalg.solve(hessian, gradient - missing * seen.mean)
    deviation = max(_deviation(step, seen.covariance), 1e-9)
    part = min(1.0, _LONGEST_STEP / deviation)
    a += shift - missing / weight - part * float(seen.mean @ step)
    # What is left to gain of F, and F, which is no less: both relative to the variance of clients.
    gain = problem.coverage * float(step @ hessian @ step) / 2.0
    least = -problem.coverage * float(problem.duals(state, seen)[0])
    small = deviation < _SMALL_STEP or gain < _SMALL_GAIN * max(1.0, least)
    return replace(
        state,
        settled=small and abs(found / wanted - 1.0) < _CLOSE,
        reach=rounded([min(1.0, 1.0 / deviation)])[0],
        shift=rounded([shift])[0],
        base_kappa=state.kappa,
        base=state.point,
        point=rounded([a, *(b + part * step)]),
        probes=_next_probes(problem.numbers, state.probes, step),
    )


def _shift(ratio: float, slope: float) -> float:
    """Return by how much to raise a for the sum of the probabilities to grow by a ratio.

    With ``d log(sum P_i) / da`` given as the slope, it is as if all P_i were equal where the sum
    is to fall, and as if they grew by one factor where it is to rise.
    """
    if ratio < 1.0:
        # All P_i are 1 - slope before, and that times the ratio after.
        shift = np.log(ratio * slope / (1.0 - (1.0 - slope) * ratio))
    else:
        shift = np.log(ratio) / slope
    return float(np.clip(shift, -_LONGEST_SHIFT, _LONGEST_SHIFT))


def _next_probes(
    numbers: PriceNumbers, probes: tuple[float, ...], step: Floats
) -> tuple[float, ...]:
    """Return the last steps as directions: along them the curvature matters most."""
    if not probes:
        return probes
    rows = np.vstack([step, np.reshape(probes, (step.size, -1)).T])
    latest = directions(rows, numbers.num_classes, numbers.num_probes)
    return tuple(latest.ravel().tolist())


def _deviation(step: Floats, covariance: Floats) -> float:
    variance = float(step @ covariance @ step)
    return float(np.sqrt(max(variance, 0.0)))
