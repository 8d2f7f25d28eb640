"""The numbers of a node of which only the sum over all nodes is read, in fixed point.

`prices` says what they are for. Each has a range that is known beforehand and takes the whole
width of its slot: the lower end of the range is 0, the upper end the largest number of the field.
So negative numbers pack, and no sum overflows.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core.price_covariance import modelled_covariance
from dubhe_flwr.errors import RefusedError, SettingsError

__all__ = ["SHORTER_STEPS", "Evaluation", "PriceNumbers"]

Floats = NDArray[np.float64]

SHORTER_STEPS: Final = (0.5, 0.2)
"""Parts of a step after which the dual is evaluated beside its end."""

_WHOLE_MATRIX_UP_TO: Final = 32
"""Classes; there the matrix takes nine ciphertexts, and images of four directions four."""

_NUM_PROBES: Final = 4
_LARGEST_LOGIT: Final = 1024.0

_BITS: Final = 20
"""Of a number. Fewer cost exchanges by their noise; more would cost ciphertexts."""

_ONE_CIPHERTEXT: Final = (10, 2047, 26)
"""Classes and nodes up to which all 78 numbers fill one of 2048 bits, with slots so wide."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the sums over all nodes say of a point.

    Parameters
    ----------
    softplus : ndarray, shape (3,)
        Sum of the softplus of the logits, at the point and at the `SHORTER_STEPS` towards it; at
        the opening the first of them only.
    volunteers : float
        ``sum P_i``.
    moment : ndarray, shape (C,)
        ``sum P_i x_i``.
    weight : float
        ``sum q_i``, with ``q_i = P_i (1 - P_i)``.
    mean : ndarray, shape (C,)
        Mean of x under the weights q.
    covariance : ndarray, shape (C, C)
        Covariance of x under the weights q; above 32 classes a model, exact along the probes.
    trace : float
        Trace of the covariance, which the model need not have.
    spread : ndarray, shape (C,)
        At the opening the sums of ``s_i (s_i, x_i)``, or in a later epoch ``(s_i, x_i)``, without
        the last component; else empty.
    """

    softplus: Floats
    volunteers: float
    moment: Floats
    weight: float
    mean: Floats
    covariance: Floats
    trace: float
    spread: Floats


@dataclass(frozen=True)
class PriceNumbers:
    """How a node's numbers stand in the slots of a field, and how their sums are read.

    Up to 32 classes these are 6 + C + C (C + 1) / 2 numbers. Above, the matrix among them gives
    way to its diagonal and its images of four directions, the probes.

    Parameters
    ----------
    num_classes : int
        ``C``, at least 2.
    max_clients : int
        Most nodes in a sum.
    largest_weight : float (default: 1)
        Largest weight of a node; 1 where all weigh the same.

    Raises
    ------
    SettingsError
        If a number is out of range.

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
        if not (self.num_classes >= 2 and self.max_clients >= 1 and self.largest_weight > 0.0):
            raise SettingsError(
                f"num_classes={self.num_classes} must be at least 2, max_clients="
                f"{self.max_clients} at least 1 and largest_weight={self.largest_weight} above 0."
            )

    @property
    def num_probes(self) -> int:
        """Directions whose images are summed; 0 where the whole matrix is."""
        return 0 if self.num_classes <= _WHOLE_MATRIX_UP_TO else _NUM_PROBES

    @property
    def max_value(self) -> int:
        """Largest number that a node may put in a slot."""
        classes, nodes, slot_bits = _ONE_CIPHERTEXT
        if self.num_classes > classes or self.max_clients > nodes:
            return 2**_BITS - 1
        return (2**slot_bits - 1) // self.max_clients

    @property
    def largest_radius(self) -> float:
        """Most that ``||x||`` can be."""
        return float(np.sqrt(2.0)) * self.largest_weight

    def least_spread(self, num_clients: int) -> float:
        """Return the trace of the covariance below which N clients may differ by rounding alone."""
        noise = self.num_classes * self.largest_weight**2 / self.max_value / num_clients**0.5
        return max(3e-4, 4.0 * noise)

    def num_slots(self, *, opening: bool) -> int:
        """Return how many numbers a node gives, at the opening or at a later evaluation."""
        return sum(size for size, _, _ in self._blocks(opening, 0.0, 1.0).values())

    def encode(
        self,
        position: Floats,
        points: ArrayLike,
        kappa: float,
        radius: float,
        probes: Floats,
        rng: np.random.Generator,
        *,
        opening: bool,
    ) -> NDArray[np.int64]:
        """Return a node's numbers at a point.

        Parameters
        ----------
        position : ndarray, shape (C,)
            ``x`` of the node.
        points : array_like of float, shape (3, C + 1)
            ``(a, b)`` of the point and of the `SHORTER_STEPS` towards it; at the opening (1, C+1).
        kappa : float
            Price of ``||x||^2``.
        radius : float
            In the curvature, whoever is farther away counts as if he were at this distance.
        probes : ndarray, shape (C, num_probes)
            Directions of length 1.
        rng : numpy.random.Generator
            The node's own, for rounding.
        opening : bool
            Whether these numbers travel with the registration.

        Returns
        -------
        ndarray of int64, shape (num_slots,)
            Each from 0 to `max_value`.
        """
        square = float(position @ position)
        at = np.asarray(points, dtype=np.float64)
        logits = at[:, 0] + at[:, 1:] @ position - kappa * square
        share = 1.0 / (1.0 + np.exp(-np.clip(logits[0], -500.0, 500.0)))
        weight = share * (1.0 - share)
        near = position * min(1.0, radius / max(square**0.5, 1e-12))
        numbers = {
            "above": np.maximum(logits, 0.0),
            "bend": np.log1p(np.exp(-np.abs(logits))),
            "volunteers": share,
            "moment": share * position[:-1],
            "weight": weight,
            "mean": weight * near[:-1],
            "matrix": weight * np.outer(near, near)[self._triangle],
            "squares": weight * near**2,
            "images": weight * np.outer(near, near @ probes),
            "spread": (1.0 if kappa else square) * np.append(square, position[:-1]),
        }
        blocks = self._blocks(opening, kappa, radius)
        scaled = [
            (np.ravel(numbers[name]) - lower) / (upper - lower)
            for name, (_, lower, upper) in blocks.items()
        ]
        units = np.clip(np.concatenate(scaled), 0.0, 1.0) * self.max_value
        # Up or down at random, so that the errors of many nodes alike cancel.
        return np.floor(units + rng.random(units.size)).clip(0, self.max_value).astype(np.int64)

    def decode(
        self,
        sums: ArrayLike,
        num_clients: int,
        kappa: float,
        radius: float,
        probes: Floats,
        *,
        opening: bool,
    ) -> Evaluation:
        """Read the sums of the numbers of all nodes.

        Parameters
        ----------
        sums : array_like of int, shape (num_slots,)
            The sums.
        num_clients : int
            ``N``: nodes in the sums.
        kappa, radius, probes, opening
            As in `encode`.

        Raises
        ------
        RefusedError
            If no nodes can have given such numbers. It does not say why.
        """
        integers = np.asarray(sums, dtype=np.int64)
        blocks = self._blocks(opening, kappa, radius)
        if (
            integers.shape != (self.num_slots(opening=opening),)
            or integers.min() < 0
            or integers.max() > num_clients * self.max_value
        ):
            raise _refusal()
        ends = np.cumsum([size for size, _, _ in blocks.values()])
        values: dict[str, Floats] = {}
        for (name, (_, lower, upper)), part in zip(
            blocks.items(), np.split(integers, ends[:-1]), strict=True
        ):
            values[name] = num_clients * lower + part * ((upper - lower) / self.max_value)
        volunteers, weight = float(values["volunteers"][0]), float(values["weight"][0])
        softplus = values["above"] + values["bend"]
        moment, first = _all_classes(values["moment"]), _all_classes(values["mean"])
        # Rounding moves a sum by at most half a unit for each node.
        slack = num_clients / self.max_value
        size = self.largest_weight
        possible = (
            -slack <= weight <= volunteers * (1.0 - volunteers / num_clients) + slack
            and softplus[0] >= volunteers - (_LARGEST_LOGIT + 2.0) * slack
            and np.abs(moment).max() <= size * (volunteers + self.num_classes * slack)
        )
        if not possible:
            raise _refusal()
        weight = max(weight, slack)
        mean = first / weight
        if "matrix" in values:
            second = np.zeros((self.num_classes, self.num_classes))
            second[self._triangle] = values["matrix"]
            second += np.triu(second, 1).T
            second[-1] = -second.sum(axis=0)
            second[:, -1] = -second.sum(axis=1)
            covariance = second / weight - np.outer(mean, mean)
            trace = float(np.trace(covariance))
            lowest, vectors = np.linalg.eigh(covariance)
            if lowest[0] * weight < -((self.num_classes * radius) ** 2) * slack:
                raise _refusal()
            covariance = (vectors * np.maximum(lowest, 0.0)) @ vectors.T
        else:
            variances = values["squares"] / weight - mean**2
            images = values["images"].reshape(self.num_classes, -1) / weight
            images -= np.outer(mean, mean @ probes)
            trace = float(variances.sum())
            covariance = modelled_covariance(variances, probes, images)
        return Evaluation(
            softplus,
            volunteers,
            moment,
            weight,
            mean,
            covariance,
            trace,
            values.get("spread", np.empty(0)),
        )

    @property
    def _triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.triu_indices(self.num_classes - 1)

    def _blocks(
        self, opening: bool, kappa: float, radius: float
    ) -> dict[str, tuple[int, float, float]]:
        """Return size and range of each kind of number, in the order of the slots."""
        classes, size = self.num_classes, self.largest_weight
        # |x_j| <= size and 2 |x_j x_k| <= ||x||^2 <= 2 size^2, and a weight is at most 1/4.
        num_points = 1 if opening else 1 + len(SHORTER_STEPS)
        blocks = {
            # Softplus in two parts, the one wide and the other fine.
            "above": (num_points, 0.0, _LARGEST_LOGIT),
            "bend": (num_points, 0.0, np.log(2.0)),
            "volunteers": (1, 0.0, 1.0),
            "moment": (classes - 1, -size, size),
            "weight": (1, 0.0, 0.25),
            "mean": (classes - 1, -radius / 4, radius / 4),
        }
        if self.num_probes:
            blocks["squares"] = (classes, 0.0, radius**2 / 4)
            blocks["images"] = (classes * self.num_probes, -(radius**2) / 4, radius**2 / 4)
        else:
            blocks["matrix"] = (classes * (classes - 1) // 2, -(radius**2) / 4, radius**2 / 4)
        if opening:
            largest = 2.0 * size**2 * (1.0 if kappa else 2.0 * size**2)
            blocks["spread"] = (classes, -largest, largest)
        return blocks


def _all_classes(components: Floats) -> Floats:
    """Append the last component, since those of x sum to 0."""
    return np.append(components, -components.sum())


def _refusal() -> RefusedError:
    return RefusedError("Sums for prices are not those of nodes; register anew.")
