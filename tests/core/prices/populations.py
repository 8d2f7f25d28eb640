"""Client populations for the tests of prices, and their exchanges over a period."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import UNIT, PriceDesign, PriceState
from dubhe_lab.data.partition import client_distributions

Floats = NDArray[np.float64]

MOST_EXCHANGES = 8


def skewed(num_clients: int, num_classes: int, seed: int, concentration: float = 2.0) -> Floats:
    """Return label distributions around a mean that falls off over the classes."""
    shares = np.linspace(2.0, 0.5, num_classes)
    rng = np.random.default_rng(seed)
    return rng.dirichlet(concentration * shares / shares.sum() * num_classes / 4, num_clients)


def half_normal(num_classes: int, rho: float = 10.0) -> Floats:
    """Return the paper's global skew: the largest share is rho times the smallest."""
    shares = np.exp(-((np.arange(num_classes) / (num_classes - 1)) ** 2) * np.log(rho))
    return np.asarray(shares / shares.sum())


def with_emd(num_clients: int, num_classes: int, emd: float, seed: int) -> Floats:
    """Return label distributions with a global skew of 10 and a given EMD_avg."""
    counts = client_distributions(
        num_clients, half_normal(num_classes), emd, np.random.default_rng(seed)
    )
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def specialists(num_clients: int, num_classes: int, seed: int) -> Floats:
    """Return nearly identical clients, and 5 % that hold a single class."""
    rng, number = np.random.default_rng(seed), num_clients // 20
    rows = rng.dirichlet(200 * half_normal(num_classes), num_clients)
    rows[:number] = np.eye(num_classes)[rng.integers(0, num_classes, number)]
    return rows


@dataclass
class Federation:
    """Clients and their shared state of prices; the noise has `noise_in_sum` times sigma^2."""

    design: PriceDesign
    distributions: Floats
    weights: Floats | None = None
    noise_in_sum: float = 1.0
    seed: int = 0
    state: PriceState = field(default_factory=PriceState)

    def __post_init__(self) -> None:
        """Seed the noise."""
        self.num_clients = len(self.distributions)
        self.rng = np.random.default_rng([self.seed, 1])
        if self.weights is None:
            self.weights = np.ones(self.num_clients)
        self.labels = self.weights[:, None] * self.distributions
        lasting = np.random.default_rng([self.seed, 2])
        self.lasting = lasting.normal(size=self.labels.shape)

    def step(self) -> None:
        """Advance the state by the next sums."""
        assert self.weights is not None
        values = self.design.values(self.state, self.labels, self.weights, self.lasting)
        means = np.rint(values * UNIT).sum(axis=0) / UNIT / self.num_clients
        deviations = self.design.deviations(self.num_clients, opening=not self.state.num_sums)
        deviations *= self.noise_in_sum**0.5 / self.num_clients
        means += self.rng.normal(size=means.size) * deviations
        self.state = self.design.advance(self.state, means, self.num_clients, self.noise_in_sum)

    def settle(self) -> int:
        """Exchange sums until prices are settled, and return the number of exchanges."""
        while not self.state.settled and self.state.num_sums <= MOST_EXCHANGES:
            self.step()
        return self.state.num_sums - 1

    def at_sums(self) -> Floats:
        """Return the probabilities of all clients at the latest prices, as for another sum."""
        assert self.weights is not None
        values = self.design.values(self.state, self.labels, self.weights, self.lasting)
        return values[:, -1] if self.design.weighted else values.sum(axis=1)

    def probabilities(self) -> Floats:
        """Return the probabilities of all clients for a draw, not rounded to levels."""
        assert self.weights is not None
        return self.design.probabilities(
            self.state, self.labels, self.num_clients, self.weights, lasting=self.lasting
        )

    def distance(self, probabilities: Floats | None = None) -> float:
        """Return the L1 distance between the volunteers' labels and the target."""
        found = self.probabilities() if probabilities is None else probabilities
        labels = found @ self.labels
        wanted = self.design.target or np.full(labels.size, 1.0 / labels.size)
        return float(np.abs(labels / labels.sum() - np.array(wanted)).sum())
