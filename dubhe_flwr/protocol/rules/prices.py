"""Prices: a node volunteers as the federation needs its own labels, not as its category does.

Every node registers what it adds to the sums at the opening, and then to those of some exchanges;
all solve for the same class prices from the same decrypted sums. `dubhe_flwr.core.prices` has
the mathematics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he.layout import Slots
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


@register_rule
@dataclass(frozen=True)
class Prices(Rule):
    """Clients that hold what is scarce volunteer more often, by prices that are fitted to all.

    Parameters
    ----------
    coverage : float (default: 0.3)
        Price of calling the same clients again and again, relative to how much the clients'
        labels differ.
    local_skew : float (default: 0)
        Price of the skew of the chosen clients themselves. A small network under SGD hardly minds
        it; with Adam or ResNet18, 1 is a good value, together with ``coverage=0.1``.
    target : sequence of float, optional (default: all classes equally often)
        Share of each class that is wanted of the data of a round.

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
    target: Sequence[float] | None = None

    name: ClassVar[str] = "prices"

    def __post_init__(self) -> None:
        for name in ("coverage", "local_skew"):
            if not isinstance(value := getattr(self, name), Real):
                raise SettingsError(f"{name}={value!r} must be a number.")
        self._design(2, 2.0)
        if self.target is not None:
            shares = np.asarray(self.target)
            good = shares.ndim == 1 and shares.size >= 2 and shares.dtype.kind in "iuf"
            good = good and 0.0 <= shares.min() <= shares.max() < 1.0
            if not (good and abs(shares.sum() - 1.0) <= 1e-6):
                raise SettingsError(
                    f"target={self.target!r} must have a share for each class; shares sum to 1."
                )

    @property
    def pool(self) -> int:
        """Five: a larger pool of volunteers has more skewed clients in it."""
        return 5

    @property
    def num_classes(self) -> int | None:
        """``C``, where a target is given."""
        return None if self.target is None else len(self.target)

    def registration_slots(self, frame: Frame) -> Slots:
        """Return the slots of the numbers at the opening."""
        return _slots(frame, opening=True)

    def settlement_slots(self, frame: Frame) -> Slots:
        """Return the slots of the numbers at a point."""
        return _slots(frame, opening=False)

    def num_sums(self, frame: Frame, num_clients: int) -> int:
        """Return how many sums a node reads: fewer numbers than half the unknowns N (C - 1)."""
        spare = num_clients * (frame.num_classes - 1) // 2 - self.registration_slots(frame).number
        if spare < 0:
            return 0
        return 1 + min(_MOST_EXCHANGES, spare // self.settlement_slots(frame).number)

    def contribution(self, own: Own, frame: Frame) -> NDArray[np.int64]:
        """Return a node's numbers at the opening, where all are equally likely."""
        numbers, position = _numbers(frame), self._position(own)
        return PriceState.first(numbers).contribution(numbers, position, own.rng, own.remembered)

    def settle(
        self,
        own: Own,
        population: Population,
        memory: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Take up the sums of an evaluation; go on until the prices are settled."""
        frame, num_clients = population.frame, population.num_clients
        numbers, position = _numbers(frame), self._position(own)
        volunteers = float(population.num_volunteers)
        if volunteers >= num_clients:
            return Settled(1.0)
        design = self._design(population.num_participants, volunteers)
        try:
            state = PriceState.first(numbers)
            if memory is not None:
                state = PriceState.from_floats(numbers, memory)
            state = advanced(design, numbers, state, sums.tobytes(), num_clients)
        except SettingsError:
            raise RefusedError("The sums are not those of prices.") from None
        probability = design.probability(state, position, num_clients, own.rng.random())
        if state.settled or state.evaluations >= self.num_sums(frame, num_clients):
            # A single step is too rough a guess for the next epoch to begin with.
            left = tuple(state.prices()[0].tolist()) if state.evaluations > 1 else ()
            return Settled(probability, left=left)
        contribution = state.contribution(numbers, position, own.rng)
        return Unsettled(probability, contribution, state.as_floats())

    def announced(self) -> dict[str, Any]:
        """Return the settings."""
        target = None if self.target is None else [float(share) for share in self.target]
        skew = float(self.local_skew)
        return {"coverage": float(self.coverage), "local_skew": skew, "target": target}

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return the settings."""
        del finding
        wanted = "" if self.target is None else ", with a target"
        return f"prices: coverage {self.coverage:g}, local skew {self.local_skew:g}{wanted}"

    def _design(self, num_participants: int, num_volunteers: float) -> PriceDesign:
        coverage, local_skew = float(self.coverage), float(self.local_skew)
        return PriceDesign(num_participants, num_volunteers, coverage, local_skew)

    def _position(self, own: Own) -> Position:
        shares = own.distribution
        target = np.full(len(shares), 1.0 / len(shares)) if self.target is None else self.target
        return Position.of(shares, target, own.weight)


@lru_cache(maxsize=8)
def advanced(
    design: PriceDesign, numbers: PriceNumbers, state: PriceState, sums: bytes, num_clients: int
) -> PriceState:
    """Take up sums; computed once for all nodes of a simulation, since all compute the same."""
    return design.advance(numbers, state, np.frombuffer(sums, dtype=np.int64), num_clients)


@lru_cache(maxsize=8)
def _numbers(frame: Frame) -> PriceNumbers:
    return PriceNumbers(frame.num_classes, frame.max_clients, frame.largest_weight)


@lru_cache(maxsize=16)
def _slots(frame: Frame, *, opening: bool) -> Slots:
    numbers = _numbers(frame)
    return Slots(numbers.num_slots(opening=opening), numbers.max_value)
