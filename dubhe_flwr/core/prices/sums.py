"""The numbers of nodes in fixed point, and how their sums are read.

Each number has a range that is known beforehand and takes the whole width of its slot: the lower
end of the range is 0, the upper end the largest number of the field. So negative numbers pack, and
no sum overflows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.prices.covariance import modelled_covariance
from dubhe_flwr.core.prices.evaluation import SHORTER_STEPS, Evaluation, Floats, Query
from dubhe_flwr.errors import RefusedError, SettingsError

_WHOLE_MATRIX_UP_TO: Final = 32
"""Classes. There it takes ten ciphertexts, and images of four directions four."""

_NUM_PROBES: Final = 4
_LARGEST_LOGIT: Final = 1024.0
_LARGEST_PRICE: Final = 8192.0

_ENOUGH: Final = 0.25
"""Of the nodes, who have to remember prices: one that lies is then one of many."""

_BITS: Final = 20
"""Of a number where it does not matter: with fewer, noise costs exchanges."""

_ONE_CIPHERTEXT: Final = 2045
"""Bits of slots in one of 2048 bits."""

_SLOT_BITS: Final = (24, 26)
"""Least and most of a slot that is made narrow for an exchange to fit one ciphertext."""

_MOST_CLIENTS: Final = 2047
"""Of whom a number keeps 13 bits in such a slot."""


@dataclass(frozen=True)
class PriceNumbers:
    """How a node's numbers stand in the slots of a field, and how their sums are read.

    Parameters
    ----------
    num_classes : int
        ``C``, at least 2.
    max_clients : int
        Most nodes in a sum.
    largest_weight : float (default: 1)
        Largest weight of a node. With 1 all weigh the same and x is all there is to a node; above
        it the weight is another feature.

    Examples
    --------
    >>> numbers = PriceNumbers(num_classes=10, max_clients=2000)
    >>> numbers.num_slots(opening=True), numbers.num_slots(opening=False), numbers.max_value
    (77, 71, 33554)
    """

    num_classes: int
    max_clients: int
    largest_weight: float = 1.0

    def __post_init__(self) -> None:
        if not (self.num_classes >= 2 and self.max_clients >= 1 and self.largest_weight >= 1.0):
            raise SettingsError(
                f"num_classes={self.num_classes} must be at least 2, max_clients="
                f"{self.max_clients} and largest_weight={self.largest_weight} at least 1."
            )

    @property
    def weighted(self) -> bool:
        """Whether nodes differ in weight."""
        return self.largest_weight > 1.0

    @property
    def num_features(self) -> int:
        """``n``: classes, and one more where nodes differ in weight."""
        return self.num_classes + self.weighted

    @property
    def num_probes(self) -> int:
        """Directions whose images are summed; 0 where the whole matrix is."""
        return 0 if self.num_classes <= _WHOLE_MATRIX_UP_TO else _NUM_PROBES

    @cached_property
    def max_value(self) -> int:
        """Largest number that a node may put in a slot."""
        least, most = _SLOT_BITS
        slot_bits = min(most, _ONE_CIPHERTEXT // self.num_slots(opening=False))
        if slot_bits < least or self.max_clients > _MOST_CLIENTS:
            return int(2**_BITS - 1)
        return int((2**slot_bits - 1) // self.max_clients)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Indices of the features that are sent."""
        return np.delete(np.arange(self.num_features), self.num_classes - 1)

    @cached_property
    def _triangle(self) -> tuple[NDArray[np.intp], ...]:
        """Indices of the upper triangle of a matrix of them."""
        return np.triu_indices(self._places.size)

    @property
    def largest_radius(self) -> float:
        """Most that the length of the features can be."""
        return float(np.sqrt(3.0 if self.weighted else 2.0)) * self.largest_weight

    def least_spread(self, num_clients: int) -> float:
        """Return the trace of the covariance below which N clients may differ by rounding alone."""
        noise = self.num_classes * self.largest_weight**2 / self.max_value / num_clients**0.5
        return float(max(3e-4, 4.0 * noise))

    def softplus_noise(self, num_volunteers: float) -> float:
        """Return how far rounding moves the sum of softplus over V; it moves that of volunteers."""
        return float(_LARGEST_LOGIT / self.max_value / num_volunteers**0.5)

    def num_slots(self, *, opening: bool) -> int:
        """Return how many numbers a node gives, at the opening or at a later evaluation."""
        return sum(size for size, _, _ in self._blocks(opening, 1.0).values())

    def encode(
        self,
        features: Floats,
        square: float,
        query: Query,
        rng: np.random.Generator,
        remembered: Sequence[float] = (),
    ) -> NDArray[np.int64]:
        """Return a node's numbers, shape (num_slots,), each from 0 to `max_value`.

        Features are x, and where nodes differ in weight how much more one weighs than the mean;
        `square` is s. By the node's own `rng` numbers are rounded up or down at random, so that the
        errors of many nodes that are alike cancel. Remembered prices of an earlier epoch, of shape
        (1 + n,), go into the opening; of another length they count as none.
        """
        logits = query.points[:, 0] + query.points[:, 1:] @ features - query.kappa * square
        logits = np.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)
        bend = np.log1p(np.exp(-np.abs(logits)))
        share = float(np.exp(min(logits[0], 0.0) - bend[0]))
        weight = share * float(np.exp(min(-logits[0], 0.0) - bend[0]))
        length = float(np.linalg.norm(features))
        near = features * min(1.0, query.radius / max(length, 1e-12))
        sent = self._sent(near)
        remembers = len(remembered) == 1 + features.size
        prices = np.array(remembered) if remembers else np.zeros(1 + features.size)
        numbers: dict[str, Floats | float] = {
            "remembers": float(remembers),
            "intercept": prices[0],
            "prices": self._sent(prices[1:]),
            "above": np.maximum(logits, 0.0),
            "bend": bend,
            "volunteers": share,
            "moment": share * self._sent(features),
            "weight": weight,
            "mean": weight * sent,
            "matrix": weight * np.outer(sent, sent)[self._triangle],
            "squares": weight * near**2,
            "images": weight * np.outer(near, near @ query.probes),
            "spread": square * np.append(square, self._sent(features)),
        }
        names, lowest, highest = self._slots(query.opening, query.radius)
        values = np.concatenate([np.ravel(numbers[name]) for name in names])
        shares = np.minimum(np.maximum((values - lowest) / (highest - lowest), 0.0), 1.0)
        units = shares * self.max_value
        whole = np.floor(units + rng.random(units.size))
        return np.asarray(np.minimum(whole, self.max_value), dtype=np.int64)

    def decode(self, sums: ArrayLike, num_clients: int, query: Query) -> Evaluation:
        """Read the sums (num_slots,) of the numbers of all N nodes, which evaluated the query.

        `RefusedError`, which does not say why, if no nodes can have given such numbers.
        """
        values = self._values(np.asarray(sums), num_clients, query)
        # Rounding moves a sum by at most a unit for each node.
        slack = num_clients / self.max_value
        volunteers, weight = float(values["volunteers"][0]), float(values["weight"][0])
        if volunteers * (1.0 - volunteers / num_clients) + slack < weight:
            raise _refusal()
        softplus = moment = spread = remembered = np.empty(0)
        if query.opening:
            spread = np.append(values["spread"][:1], self._all(values["spread"][1:]))
            if (remembers := float(values["remembers"][0])) >= _ENOUGH * num_clients:
                prices = self._all(values["prices"])
                remembered = np.append(values["intercept"], prices) / remembers
        else:
            softplus, moment = values["above"] + values["bend"], self._all(values["moment"])
            if softplus[0] + (_LARGEST_LOGIT + 1.0) * slack < volunteers or np.abs(
                moment
            ).max() > self.largest_weight * (volunteers + num_clients * slack):
                raise _refusal()
        weight = max(weight, slack)
        mean = self._all(values["mean"]) / weight
        if self.num_probes:
            variances = values["squares"] / weight - mean**2
            images = values["images"].reshape(mean.size, -1) / weight
            images -= np.outer(mean, mean @ query.probes)
            covariance = modelled_covariance(variances, self.num_classes, query.probes, images)
        else:
            covariance = self._matrix(values["matrix"]) / weight - np.outer(mean, mean)
            variances = np.diag(covariance)
            shares, vectors = np.linalg.eigh(covariance)
            if shares[0] * weight < -((mean.size * query.radius) ** 2) * slack / num_clients**0.5:
                raise _refusal()
            covariance = (vectors * np.maximum(shares, 0.0)) @ vectors.T
        trace = float(variances[: self.num_classes].sum())
        if query.opening:
            # The mean of s is at most the root of that of s^2, which one client moves by far less.
            square = trace + float(mean[: self.num_classes] @ mean[: self.num_classes])
            noise = 24.0 * self.largest_weight**4 / self.max_value / num_clients**0.5
            most = 1.05 * (max(float(spread[0]) / num_clients, 0.0) + noise) ** 0.5
            if square > most + 5.0 * self.least_spread(num_clients):
                raise _refusal()
        return Evaluation(
            *(softplus, volunteers, moment, weight, mean), *(covariance, trace, spread, remembered)
        )

    def _values(self, sums: NDArray[np.int64], num_clients: int, query: Query) -> dict[str, Floats]:
        """Undo the scaling of the sums."""
        blocks = self._blocks(query.opening, query.radius)
        if (
            sums.shape != (self.num_slots(opening=query.opening),)
            or sums.min() < 0
            or sums.max() > num_clients * self.max_value
        ):
            raise _refusal()
        parts = np.split(sums, np.cumsum([size for size, _, _ in blocks.values()])[:-1])
        return {
            name: np.asarray(num_clients * lower + part * ((upper - lower) / self.max_value))
            for (name, (_, lower, upper)), part in zip(blocks.items(), parts, strict=True)
        }

    @lru_cache(maxsize=8)  # noqa: B019 - nodes of one process share what is cached
    def _slots(self, opening: bool, radius: float) -> tuple[tuple[str, ...], Floats, Floats]:
        """Return the kinds of numbers in order, and the range of each slot."""
        blocks = self._blocks(opening, radius)
        sizes, lower, upper = zip(*blocks.values(), strict=True)
        ranges = np.repeat([lower, upper], sizes, axis=1)
        ranges.flags.writeable = False
        return tuple(blocks), ranges[0], ranges[1]

    def _blocks(self, opening: bool, radius: float) -> dict[str, tuple[int, float, float]]:
        """Return size and range of each kind of number, in the order of the slots."""
        size, sent = self.largest_weight, self.num_features - 1
        blocks: dict[str, tuple[int, float, float]] = {}
        if opening:
            # All are equally likely: softplus and moment would tell nothing.
            blocks["remembers"] = (1, 0.0, 1.0)
            blocks["intercept"] = (1, -_LARGEST_PRICE, _LARGEST_PRICE)
        else:
            # Softplus in two parts, the one wide and the other fine.
            blocks["above"] = (1 + len(SHORTER_STEPS), 0.0, _LARGEST_LOGIT)
            blocks["bend"] = (1 + len(SHORTER_STEPS), 0.0, np.log(2.0))
        blocks["volunteers"] = (1, 0.0, 1.0)
        if opening:
            blocks["prices"] = (sent, -_LARGEST_PRICE, _LARGEST_PRICE)
        else:
            blocks["moment"] = (sent, -size, size)
        # q is at most 1/4.
        blocks["weight"] = (1, 0.0, 0.25)
        blocks["mean"] = (sent, -radius / 4, radius / 4)
        if self.num_probes:
            blocks["squares"] = (sent + 1, 0.0, radius**2 / 4)
            blocks["images"] = ((sent + 1) * self.num_probes, -(radius**2) / 4, radius**2 / 4)
        else:
            blocks["matrix"] = (sent * (sent + 1) // 2, -(radius**2) / 4, radius**2 / 4)
        if opening:
            blocks["spread"] = (1 + sent, -4.0 * size**4, 4.0 * size**4)
        return blocks

    def _sent(self, features: Floats) -> Floats:
        """Leave out the last class, since the components of x sum to 0."""
        return features[self._places]

    def _all(self, sent: Floats) -> Floats:
        """Undo `_sent`, along the first axis."""
        last = self.num_classes - 1
        return np.insert(sent, last, -sent[:last].sum(axis=0), axis=0)

    def _matrix(self, triangle: Floats) -> Floats:
        sent = self.num_features - 1
        matrix = np.zeros((sent, sent))
        matrix[self._triangle] = triangle
        matrix += np.triu(matrix, 1).T
        return self._all(self._all(matrix).T)


def _refusal() -> RefusedError:
    return RefusedError("Sums for prices are not those of nodes; register anew.")
