"""What prices are fitted for: from sums to prices, from prices to a probability."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.prices.state import Position, PriceState, rounded
from dubhe_flwr.core.prices.steps import Problem, first_guess, newton_step, shorter_step
from dubhe_flwr.core.prices.sums import PriceNumbers
from dubhe_flwr.errors import SettingsError

_LEVELS: Final = 16
_FLOOR: Final = 0.02


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

    Examples
    --------
    Half of the clients hold class 0 and a tenth class 1; the others hold both:

    >>> p = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [50, 10, 40], axis=0)
    >>> clients = [Position(own - 0.5) for own in p]
    >>> numbers = PriceNumbers(num_classes=2, max_clients=100)
    >>> design, state = PriceDesign(5, 20.0, coverage=1.0), PriceState.first(numbers)
    >>> rng = np.random.default_rng(0)
    >>> while not state.settled:
    ...     sums = sum(state.contribution(numbers, client, rng) for client in clients)
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

    def advance(
        self, numbers: PriceNumbers, state: PriceState, sums: ArrayLike, num_clients: int
    ) -> PriceState:
        """Take up the sums over all N clients, who gave their numbers for a state.

        The new state is the same on every node and platform. If no clients can have given such
        numbers it is a `RefusedError`, and if V is not below N a `SettingsError`.
        """
        if self.num_volunteers >= num_clients:
            raise SettingsError(
                f"num_volunteers={self.num_volunteers} must be below the {num_clients} clients."
            )
        seen = numbers.decode(sums, num_clients, state.query())
        state = replace(state, evaluations=state.evaluations + 1)
        pull = (1.0 + self.local_skew) / (2.0 * (self.num_participants - 1))
        problem = Problem(numbers, self.num_volunteers, num_clients, pull, self.coverage)
        if state.evaluations == 1:
            kappa = 0.0  # where clients do not differ
            if seen.trace >= numbers.least_spread(num_clients):
                wanted = (1.0 + self.local_skew) / (self.coverage * seen.trace)
                kappa = max(rounded([wanted])[0], 2.0**-14)
            return first_guess(problem, replace(state, kappa=kappa), seen)
        return shorter_step(problem, state, seen) or newton_step(problem, state, seen)

    def probability(
        self, state: PriceState, position: Position, num_clients: int, dither: float | None = None
    ) -> float:
        """Return the probability with which one of N clients volunteers.

        It is from 0.02 V / N to 1 - 0.02 (1 - V / N), and the same for all where nothing was
        summed. The dither is uniform in [0, 1), the client's own: it chooses between the two
        nearest of 16 levels, so that the probability is right on average; without it, of none.
        """
        share = min(1.0, self.num_volunteers / num_clients)
        if not state.kappa:  # before any sum, or where clients do not differ
            return share
        lowest, highest = _logit(_FLOOR * share), _logit(1.0 - _FLOOR * (1.0 - share))
        logit = min(max(state.logit(position), lowest), highest)
        if dither is None:
            return _sigmoid(logit)
        step = (highest - lowest) / (_LEVELS - 1)
        level = min(int((logit - lowest) / step), _LEVELS - 2)
        below, above = _sigmoid(lowest + step * level), _sigmoid(lowest + step * (level + 1))
        return above if _sigmoid(logit) - below > dither * (above - below) else below


def _logit(share: float) -> float:
    return float(np.log(share) - np.log1p(-share))


def _sigmoid(logit: float) -> float:
    return float(1.0 / (1.0 + np.exp(-logit)))
