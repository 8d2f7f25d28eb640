"""Prices: a node volunteers more often the more the federation needs its labels.

Nodes register what they contribute to the opening, then contribute to the sums of a few exchanges;
all fit the same class prices to the same noisy sums. This module fits prices into the protocol;
`dubhe_flwr.core.prices` has the mathematics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from numbers import Real
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import (
    LEAST_VOLUNTEERS,
    UNIT,
    Position,
    PriceDesign,
    PriceNumbers,
    PriceState,
    PrivacyBound,
    noise_scale,
)
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.determination import Determination, Tries
from dubhe_flwr.protocol.rules.rule import (
    Frame,
    Own,
    Population,
    Rule,
    Settled,
    Unsettled,
    register_rule,
)

_MOST_EXCHANGES: Final = 8
_HEAVIEST: Final = 1.5


@register_rule
@dataclass(frozen=True)
class Prices(Rule):
    """Clients with scarce labels volunteer more often, at prices fitted to the whole federation.

    If fewer than 12 clients volunteer on average, there are no prices: all nodes are equally likely
    to volunteer.

    Parameters
    ----------
    coverage : float (default: 0.3)
        Cost of calling the same clients again and again, relative to how much the clients'
        labels differ.
    local_skew : float (default: 0)
        Cost of the chosen clients' own skew. It matters little for a small network with SGD; with
        Adam or ResNet18, 1 is a good value, together with ``coverage=0.1``.
    target : sequence of float or "own", optional (default: all classes equally often)
        Wanted share of each class in a round's data, or "own" for the federation's own mix.
    noise : float, optional (default: a twelfth of the pool, from 1 to 4)
        Standard deviation of the noise on the expected number of volunteers, in clients. 0 turns
        it off, for simulations.

    Raises
    ------
    SettingsError
        If a value cannot work.

    Examples
    --------
    >>> Prices().describe()
    'prices: coverage 0.3, local skew 0'
    """

    coverage: float = 0.3
    local_skew: float = 0.0
    target: Sequence[float] | Literal["own"] | None = None  # type: ignore[assignment]
    noise: float | None = None

    name: ClassVar[str] = "prices"
    vault: ClassVar[str] = "committee"

    def __post_init__(self) -> None:
        for name in ("coverage", "local_skew", "noise")[: 2 if self.noise is None else 3]:
            if not isinstance(value := getattr(self, name), Real):
                raise SettingsError(f"{name}={value!r} must be a number.")
        PriceDesign(2, 2.0, float(self.coverage), float(self.local_skew))
        self._numbers(Frame(2, 1))
        if self.target is not None and not (isinstance(self.target, str) and self.target == "own"):
            shares = np.asarray(self.target)
            good = shares.ndim == 1 and shares.size >= 2 and shares.dtype.kind in "iuf"
            good = good and 0.0 <= shares.min() <= shares.max() < 1.0
            if not (good and abs(shares.sum() - 1.0) <= 1e-6):
                raise SettingsError(
                    f"target={self.target!r} must have a share for each class; shares sum to 1."
                )

    def determination(self, num_participants: int) -> Determination:
        """Return a single try, with a pool that is large enough for prices despite the noise."""
        least = LEAST_VOLUNTEERS if self.noise != 0.0 else 1
        return Tries(1, ceil(least / max(1, num_participants)))

    @property
    def hides_clients(self) -> bool:
        """True with the default noise, and without a target that could single out clients."""
        return self.noise is None and self._wanted in {None, "own"}

    @property
    def num_classes(self) -> int | None:
        """``C``, if the target fixes it."""
        return None if self._wanted in {None, "own"} else len(self._wanted)

    def registration_slots(self, frame: Frame) -> Slots:
        """Return the slots of a contribution to the opening."""
        return self._slots(frame, opening=True)

    def settlement_slots(self, frame: Frame) -> Slots:
        """Return the slots of a contribution to an exchange."""
        return self._slots(frame, opening=False)

    def num_sums(self, frame: Frame, num_clients: int) -> int:
        """Return the most sums that a node reads: the opening and eight exchanges."""
        del frame, num_clients
        return 1 + _MOST_EXCHANGES

    def most_entries(self, num_volunteers: int) -> int | None:
        """Return ``4 sigma^2``, so that even an attacker who knows all other clients learns little.

        None without noise, or if the pool is too small for prices: no sum then has labels in it.
        """
        sigma = self._sigma(num_volunteers)
        return int(4.0 * sigma**2) if sigma and not self._drowns(num_volunteers) else None

    def heaviest(self, num_volunteers: int) -> float:
        """Return sigma, 1.5 at most: heavier nodes would spend their accounts in a few epochs."""
        if self.noise == 0.0:
            return inf
        return min(_HEAVIEST, max(1.0, self._sigma(num_volunteers)))

    def privacy(self, frame: Frame, num_volunteers: int, num_sums: int) -> PrivacyBound | None:
        """Return epsilon for the epoch and the budget; None without noise, or without prices."""
        most, sigma = self.most_entries(num_volunteers), self._sigma(num_volunteers)
        if most is None:
            return None
        heaviest = min(frame.largest_weight, self.heaviest(num_volunteers))
        num_slots = self._numbers(frame).num_slots(opening=False)
        return PrivacyBound.of(num_sums, most, num_slots, sigma, heaviest)

    def _sigma(self, num_volunteers: int) -> float:
        return noise_scale(num_volunteers) if self.noise is None else float(self.noise)

    def deviations(self, population: Population, exchange: int) -> NDArray[np.float64] | None:
        """Return the noise's standard deviation for each slot of a sum; None without noise."""
        if self.noise == 0.0:
            return None
        numbers, volunteers = self._numbers(population.frame), float(population.num_volunteers)
        opening = exchange == 0
        return UNIT * numbers.deviations(population.num_clients, volunteers, opening=opening)

    def contribution(self, own: Own, population: Population) -> NDArray[np.int64]:
        """Return the node's contribution to the opening, with its share of the noise."""
        state = PriceState.first(self._numbers(population.frame))
        return self._told(own, population, state)

    def settle(
        self,
        own: Own,
        population: Population,
        memory: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Update the prices from a sum; contribute to another one unless they are settled."""
        num_clients, volunteers = population.num_clients, population.num_volunteers
        if volunteers >= num_clients or self._drowns(volunteers):
            return Settled(min(1.0, volunteers / num_clients))
        numbers, design = self._numbers(population.frame), self._design_for(population)
        state = PriceState.first(numbers) if memory is None else _state_of(numbers, memory)
        state = advanced(
            design, numbers, state, sums.tobytes(), num_clients, population.noise_in_sum
        )
        most, most_entries = 1 + _MOST_EXCHANGES, self.most_entries(volunteers)
        if most_entries is not None:  # later sums would contain noise alone
            most = min(most, most_entries)
        if not (state.settled or state.num_sums >= most):
            return self._unsettled(own, population, state)
        probability = self._probability(own, population, state)
        return Settled(probability, left=() if own.frozen else state.as_floats())

    def remark(self, num_volunteers: int) -> str | None:
        """Return a note if the pool is too small for prices."""
        if not self._drowns(num_volunteers):
            return None
        return (
            f"A pool of {num_volunteers} volunteers is too small for prices: below "
            f"{LEAST_VOLUNTEERS}, noise would drown the sums. All nodes are equally likely to "
            "volunteer."
        )

    def _drowns(self, num_volunteers: int) -> bool:
        """Return whether noise would drown the sums."""
        return self.noise != 0.0 and num_volunteers < LEAST_VOLUNTEERS

    def _unsettled(self, own: Own, population: Population, state: PriceState) -> Unsettled:
        probability = self._probability(own, population, state)
        return Unsettled(probability, self._told(own, population, state), state.as_floats())

    def _told(self, own: Own, population: Population, state: PriceState) -> NDArray[np.int64]:
        """Return the node's contribution with its noise; the noise alone once its account is spent.

        The account counts the sums that the node's label counts have entered.
        """
        numbers, design = self._numbers(population.frame), self._design_for(population)
        num_clients = population.num_clients
        opening = not state.num_sums
        deviations = numbers.deviations(num_clients, design.num_volunteers, opening=opening)
        noise = numbers.draw_noise(deviations, population.noise_share, own.rng)
        if own.frozen is not None or self._drowns(population.num_volunteers):
            return numbers.encode(np.zeros(noise.size), noise, opening=opening)
        return design.contribution(numbers, state, self._position(own, population), noise)

    def _probability(self, own: Own, population: Population, state: PriceState) -> float:
        """Return the node's probability, at the prices it has kept if its account is spent.

        If the account was spent before the node first settled, it uses the current prices.
        """
        numbers, design = self._numbers(population.frame), self._design_for(population)
        if own.frozen:
            state = _state_of(numbers, own.frozen)
        num_clients, dither = population.num_clients, own.rng.random()
        position = self._position(own, population)
        return design.probability(state, position, num_clients, dither)

    def _position(self, own: Own, population: Population) -> Position:
        """Return the node's position, with its weight capped."""
        weight = min(own.weight, self.heaviest(population.num_volunteers))
        return Position.of(own.distribution, weight)

    def announced(self) -> dict[str, Any]:
        """Return the settings."""
        wanted, noise = self._wanted, None if self.noise is None else float(self.noise)
        settings = {"coverage": float(self.coverage), "local_skew": float(self.local_skew)}
        return settings | {
            "noise": noise,
            "target": list(wanted) if isinstance(wanted, tuple) else wanted,
        }

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return the settings."""
        del finding
        wanted = "" if self.target is None else ", with a target"
        return f"prices: coverage {self.coverage:g}, local skew {self.local_skew:g}{wanted}"

    @property
    def _wanted(self) -> tuple[float, ...] | Literal["own"] | None:
        """The target as a tuple of Python floats, "own", or None."""
        if self.target is None or isinstance(self.target, str):
            return self.target
        return tuple(map(float, self.target))

    def _design(self, num_participants: int, num_volunteers: float) -> PriceDesign:
        coverage, local_skew = float(self.coverage), float(self.local_skew)
        return PriceDesign(num_participants, num_volunteers, coverage, local_skew, self._wanted)

    def _design_for(self, population: Population) -> PriceDesign:
        return self._design(population.num_participants, float(population.num_volunteers))

    def _numbers(self, frame: Frame) -> PriceNumbers:
        return _numbers(frame, None if self.noise is None else float(self.noise))

    def _slots(self, frame: Frame, *, opening: bool) -> Slots:
        numbers = self._numbers(frame)
        return Slots(numbers.num_slots(opening=opening), numbers.max_value(opening=opening))


def _state_of(numbers: PriceNumbers, values: tuple[float, ...]) -> PriceState:
    try:
        return PriceState.from_floats(numbers, values)
    except SettingsError:
        raise RefusedError("The saved state does not belong to these prices.") from None


@lru_cache(maxsize=8)
def advanced(  # noqa: PLR0917 - the cache's keys are positional
    design: PriceDesign,
    numbers: PriceNumbers,
    state: PriceState,
    sums: bytes,
    num_clients: int,
    noise_shares: float,
) -> PriceState:
    """Return the state after a sum; the cache shares it between the nodes of a simulation."""
    vector = np.frombuffer(sums, dtype=np.int64)
    return design.advance(numbers, state, vector, num_clients, noise_shares)


@lru_cache(maxsize=8)
def _numbers(frame: Frame, noise: float | None) -> PriceNumbers:
    return PriceNumbers(frame.num_classes, frame.max_clients, frame.largest_weight, noise)
