"""Prices: a node volunteers more often the more the federation needs its labels.

Nodes register a contribution to a first sum, the opening, and then contribute to a few more sums.
All nodes fit the same class prices to the same noisy sums. This module connects prices to the
protocol; `dubhe_flwr.core.prices` has the mathematics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from numbers import Real
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.determination import Tries
from dubhe_flwr.core.distribution import FIXED_POINT_SCALE
from dubhe_flwr.core.prices import (
    FEW_CLASSES,
    LEAST_VOLUNTEERS,
    UNIT,
    FixedPoint,
    PriceDesign,
    PriceState,
    PrivacyBound,
    volunteers_at_sums,
)
from dubhe_flwr.core.randomness import gaussian, generator, normal
from dubhe_flwr.errors import SettingsError
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
from dubhe_flwr.protocol.wire.announced import VaultName

_MOST_SUMS: Final = 9
_HEAVIEST: Final = 1.2
"""Largest weight in a sum: its square is below 3 / 2, so even the heaviest node can enter all sums
of a first epoch."""

_LEAST_COVERAGE: Final = 0.005
"""Least coverage for each unit of ``1 + local_skew``. With half of it, Newton's method may not end,
and the last bits of a node's arithmetic then decide where it stops."""

_LEAST_NOISE: Final = 1.0
"""With less noise, label counts could not enter enough sums to find prices."""

_WARM_FACTOR: Final = 2.0
"""An epoch that starts from the last prices has this many times the noise. Its sums only refine
those prices, and each sum uses a quarter as much of the budget."""

_BLUR: Final = 0.6
"""Standard deviation of the lasting noise on a share, relative to 1 / C. It does not grow with the
rule's noise: a server that announced two rules could compare two blurs and remove the noise."""

_FEWEST_NODES: Final = 20
"""With fewer nodes, sums are taken for fewer than `LEAST_VOLUNTEERS`, unless K is larger."""


@register_rule
@dataclass(frozen=True)
class Prices(Rule):
    """Clients volunteer more often if their labels are scarce in the whole federation.

    With fewer than 20 nodes, and K below 12, noise leaves no prices: all nodes are equally likely
    to volunteer.

    Parameters
    ----------
    coverage : float (default: 0.15)
        Cost of selecting the same clients again and again, relative to how much the clients'
        labels differ.
    local_skew : float (default: 0)
        Cost of the chosen clients' own skew. A small network gains nothing from it; a deep one such
        as ResNet18 may gain from a cost of 1, together with ``coverage=0.1``.
    target : sequence of float or "own", optional (default: all classes equally often)
        Desired share of each class in a round's data, or "own" for the federation's own mix.
    noise : float (default: 1.5)
        Standard deviation of the noise on the expected number of volunteers, in clients. It is
        twice as large when a registration starts from the last prices. With fewer than ten classes,
        nodes also draw by label distributions with lasting noise. 0 turns all noise off, for
        simulations.

    Raises
    ------
    SettingsError
        If a value is invalid.

    Examples
    --------
    >>> Prices().describe()
    'prices: coverage 0.15, local skew 0'
    """

    coverage: float = 0.15
    local_skew: float = 0.0
    target: Sequence[float] | Literal["own"] | None = None  # type: ignore[assignment]
    noise: float = 1.5

    name: ClassVar[str] = "prices"
    determination: ClassVar[Tries] = Tries(1)
    vault: ClassVar[str] = VaultName.COMMITTEE

    def __post_init__(self) -> None:
        for name, least in (("coverage", _LEAST_COVERAGE), ("local_skew", 0), ("noise", 0)):
            value = getattr(self, name)
            if not isinstance(value, Real):
                raise SettingsError(f"{name}={value!r} must be a number.")
            if not least <= float(value) <= 1000.0:
                raise SettingsError(f"{name}={value} must be from {least} to 1000.")
            object.__setattr__(self, name, float(value))
        least = _LEAST_COVERAGE * (1.0 + self.local_skew)
        if self.coverage < least:
            raise SettingsError(
                f"coverage={self.coverage:g} must be at least {least:g} with local_skew="
                f"{self.local_skew:g}, or else prices would depend on a node's hardware."
            )
        if 0.0 < self.noise < _LEAST_NOISE:
            raise SettingsError(f"noise={self.noise} must be at least {_LEAST_NOISE:g}, or 0.")
        if self.target is None or (isinstance(self.target, str) and self.target == "own"):
            return
        shares = np.asarray(self.target)
        good = shares.ndim == 1 and shares.size >= 2 and shares.dtype.kind in "iuf"
        good = good and 0.0 <= shares.min() <= shares.max() < 1.0
        if not (good and abs(shares.sum() - 1.0) <= 1e-6):
            raise SettingsError(
                f"target={self.target!r} must have a share for each class; shares sum to 1."
            )
        object.__setattr__(self, "target", tuple(map(float, self.target)))

    @property
    def hides_clients(self) -> bool:
        """True with the default noise, and without a target that could single out clients."""
        return self.noise == Prices.noise and self.target in {None, "own"}

    @property
    def num_classes(self) -> int | None:
        """``C``, if the target fixes it."""
        return None if self.target in {None, "own"} else len(self.target)

    def registration_slots(self, frame: Frame) -> Slots:
        """Return the slots of a contribution to the first sum of an epoch."""
        if frame.num_classes < 2:
            raise SettingsError(f"num_classes={frame.num_classes} must be at least 2 for prices.")
        if frame.continues:
            return self.settlement_slots(frame)
        num_slots = self.settlement_slots(frame).number + 1
        return Slots(num_slots, self._fixed_point(frame, opening=True).max_value)

    def settlement_slots(self, frame: Frame) -> Slots:
        """Return the slots of a contribution to a sum after the opening."""
        num_slots = frame.num_classes + (frame.largest_weight > 1.0)
        return Slots(num_slots, self._fixed_point(frame, opening=False).max_value)

    def num_sums(self, frame: Frame) -> int:
        """Return how many sums a node reads at most, including the opening: never above nine.

        With noise, they spend at most two thirds of the budget of a node of mean weight, so that
        other epochs can follow.
        """
        return min(_MOST_SUMS, 2 * self._budget(frame) // 3) if self.noise else _MOST_SUMS

    def sum_budget(self, population: Population) -> int | None:
        """Return ``4 sigma^2``: averaging more sums than that would remove too much of the noise.

        None without noise, or without prices, when labels enter no sum.
        """
        has_limit = self.noise and self.has_prices(population)
        return self._budget(population.frame) if has_limit else None

    @property
    def heaviest(self) -> float:
        """1.2 with noise, since heavier nodes would soon spend their budgets; no limit without."""
        return _HEAVIEST if self.noise else inf

    def privacy(self, population: Population, num_sums: int) -> PrivacyBound | None:
        """Return epsilon for the epoch and the budget; None without noise, or without prices."""
        most, frame = self.sum_budget(population), population.frame
        if most is None:
            return None
        heaviest = min(frame.largest_weight, self.heaviest)
        num_slots = self.settlement_slots(frame).number
        return PrivacyBound.of(num_sums, most, num_slots, self._sigma(frame), heaviest)

    def _budget(self, frame: Frame) -> int:
        return int(4.0 * self._sigma(frame) ** 2)

    def _sigma(self, frame: Frame) -> float:
        return self.noise * (_WARM_FACTOR if frame.continues else 1.0)

    def deviations(self, population: Population, number: int) -> NDArray[np.float64] | None:
        """Return the noise's standard deviation for each slot of a sum; None without noise."""
        if self.noise == 0.0:
            return None
        design, opening = self._design(population), not (number or population.frame.continues)
        return UNIT * design.deviations(population.num_clients, opening=opening)

    def can_continue(self, population: Population) -> bool:
        """Return whether there are prices to start from."""
        return self.has_prices(population)

    def has_prices(self, population: Population) -> bool:
        """Return whether labels enter sums: not if V is all nodes, or if noise would drown them."""
        volunteers = self._volunteers(population.num_registered, population.num_participants)
        return volunteers < population.num_clients and not self._drowns(volunteers)

    def continued(
        self, own: Own, population: Population, state: tuple[float, ...]
    ) -> NDArray[np.int64]:
        """Return the node's contribution to a sum at the last prices, with its noise."""
        return self._contributions([own], population, self._design(population).restored(state))[0]

    def contribution(self, own: Own, population: Population) -> NDArray[np.int64]:
        """Return the node's contribution to the opening, with its share of the noise."""
        return self._contributions([own], population, PriceState())[0]

    def settle(
        self,
        own: Own,
        population: Population,
        state: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Settled | Unsettled:
        """Update the prices from a sum; contribute to another one unless they are settled."""
        return self.settle_all([own], population, state, sums)[0]

    def settle_all(
        self,
        owns: Sequence[Own],
        population: Population,
        state: tuple[float, ...] | None,
        sums: NDArray[np.int64],
    ) -> Sequence[Settled | Unsettled]:
        """Settle several nodes that read the same sum, much faster than one after the other."""
        num_clients = population.num_clients
        if not self.has_prices(population):
            return [Settled(min(1.0, population.num_participants / num_clients))] * len(owns)
        prices = self.advanced(population, state, sums.tobytes())
        dithers = [own.rng.random() for own in owns]
        if not prices.settled and prices.num_sums < self.num_sums(population.frame):
            kept = prices.as_floats()
            return [Unsettled(t, kept) for t in self._contributions(owns, population, prices)]
        labels, weights, lasting = self._known(owns, population.frame)
        found = self._design(population).probabilities(
            prices, labels, num_clients, weights, dithers, lasting=lasting
        )
        renewed = prices.renewed().as_floats()
        return [Settled(probability, state=renewed) for probability in found.tolist()]

    def remark(self, num_clients: int, num_participants: int) -> str | None:
        """Return why prices do not work: there are too few nodes. None if they do."""
        if not self._drowns(self._volunteers(num_clients, num_participants)):
            return None
        return (
            f"{num_clients} nodes are too few for prices: with fewer than {_FEWEST_NODES}, and K "
            f"below {LEAST_VOLUNTEERS}, noise would drown the sums."
        )

    def _volunteers(self, num_registered: int, num_participants: int) -> int:
        """Return ``V``, which stays the same in an epoch, even if later sums cover fewer nodes."""
        return volunteers_at_sums(num_registered, num_participants, noisy=self.noise > 0.0)

    def _drowns(self, volunteers: int) -> bool:
        """Return whether noise would drown the sums."""
        return self.noise > 0.0 and volunteers < LEAST_VOLUNTEERS

    def _contributions(
        self, owns: Sequence[Own], population: Population, prices: PriceState
    ) -> list[NDArray[np.int64]]:
        """Return each node's contribution and noise, without its labels if its budget is spent."""
        design = self._design(population)
        values = design.values(prices, *self._known(owns, population.frame))
        if any(silent := [own.is_silent for own in owns]):
            values[silent] = design.neutral(prices, population.num_clients)
        values *= self.has_prices(population)
        noise: ArrayLike = 0.0
        deviations = self.deviations(population, prices.num_sums)
        if deviations is not None and population.noise_share:
            deviations *= population.noise_share**0.5
            uniform = (1.0 - own.rng.random((2, deviations.size)) for own in owns)
            noise = [gaussian(deviations, each) for each in uniform]
        fixed_point = self._fixed_point(population.frame, opening=not prices.num_sums)
        return list(fixed_point.encode(values, noise))

    def _known(
        self, owns: Sequence[Own], frame: Frame
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], ArrayLike]:
        """Return ``w p`` of each node, shape (N, C), its w, and its lasting noise.

        The weights are capped at `heaviest`. The noise has deviation 1; it is 0 without a blur.
        """
        weights = np.array([min(own.weight, self.heaviest) for own in owns])
        distributions = np.array([own.distribution for own in owns])
        lasting: ArrayLike = 0.0
        if self.blur(frame):
            lasting = [_lasting_noise_of(own.lasting_seed, frame.num_classes) for own in owns]
        return weights[:, None] * distributions / FIXED_POINT_SCALE, weights, lasting

    def blur(self, frame: Frame) -> float:
        """Return the standard deviation of the lasting noise on a node's shares; 0 for none."""
        is_needed = self.noise > 0.0 and frame.num_classes < FEW_CLASSES
        return _BLUR / frame.num_classes if is_needed else 0.0

    def describe(self, finding: Sequence[float] = ()) -> str:
        """Return the settings."""
        del finding
        wanted = "" if self.target is None else ", with a target"
        return f"prices: coverage {self.coverage:g}, local skew {self.local_skew:g}{wanted}"

    def _design(self, population: Population) -> PriceDesign:
        return PriceDesign(
            population.frame.num_classes,
            population.num_participants,
            self._volunteers(population.num_registered, population.num_participants),
            self.coverage,
            self.local_skew,
            self.target,  # type: ignore[arg-type]  # a tuple, or "own"
            population.frame.largest_weight,
            self._sigma(population.frame),
            self.blur(population.frame),
        )

    def _fixed_point(self, frame: Frame, *, opening: bool) -> FixedPoint:
        sizes = frame.num_classes, frame.max_clients, frame.largest_weight
        return FixedPoint.of(*sizes, self._sigma(frame), opening=opening)

    @lru_cache(maxsize=8)  # noqa: B019 - holds few states; the nodes of a simulation share them
    def advanced(
        self, population: Population, state: tuple[float, ...] | None, sums: bytes
    ) -> PriceState:
        """Return the state after a sum."""
        design, num_clients = self._design(population), population.num_clients
        prices = PriceState() if state is None else design.restored(state)
        fixed_point = self._fixed_point(population.frame, opening=state is None)
        means = fixed_point.means(np.frombuffer(sums, dtype=np.int64), num_clients)
        return design.advance(prices, means, num_clients, population.noise_in_sum)


@lru_cache(maxsize=1 << 15)
def _lasting_noise_of(seed: int, num_classes: int) -> NDArray[np.float64]:
    """Return a node's lasting noise; in a simulation, drawing it for each sum takes long."""
    return normal(*(1.0 - generator(seed, "blur").random((2, num_classes))))
