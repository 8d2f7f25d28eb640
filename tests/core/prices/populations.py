"""Client populations for the tests of prices, and their exchanges over a period."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState
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
    """Clients and their shared state of prices."""

    design: PriceDesign
    distributions: Floats
    weights: Floats | None = None
    noise: float | None = 0.0
    noise_shares: float = 1.0
    seed: int = 0
    state: PriceState = field(init=False)

    def __post_init__(self) -> None:
        """Begin before any sum."""
        self.state = PriceState.first(self.numbers)
        self.rng = np.random.default_rng([self.seed, 1])

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.distributions)

    @property
    def numbers(self) -> PriceNumbers:
        """How numbers are encoded."""
        heaviest = 1.0 if self.weights is None else 4.0
        return PriceNumbers(self.distributions.shape[1], 2000, heaviest, self.noise)

    @property
    def clients(self) -> list[Position]:
        """Return the clients' positions."""
        weights = np.ones(self.num_clients) if self.weights is None else self.weights
        pairs = zip(self.distributions, weights, strict=True)
        return [Position(weight * own, float(weight)) for own, weight in pairs]

    def sums(self) -> NDArray[np.int64]:
        """Return the next sums, with noise of the given shares."""
        numbers, opening = self.numbers, not self.state.num_sums
        rows = [self.design.contribution(numbers, self.state, own) for own in self.clients]
        volunteers = self.design.num_volunteers
        deviations = numbers.deviations(self.num_clients, volunteers, opening=opening)
        noise = numbers.draw_noise(deviations, self.noise_shares, self.rng)
        return np.asarray(np.sum(rows, axis=0) + noise)

    def step(self) -> None:
        """Advance the state by the next sums."""
        args = self.numbers, self.state, self.sums(), self.num_clients, self.noise_shares
        self.state = self.design.advance(*args)

    def settle(self) -> int:
        """Exchange sums until prices are settled, and return the number of exchanges."""
        while not self.state.settled and self.state.num_sums <= MOST_EXCHANGES:
            self.step()
        return self.state.num_sums - 1

    def probabilities(self) -> Floats:
        """Return the probabilities of all clients, not rounded to levels."""
        number = self.num_clients
        return np.array([self.design.probability(self.state, c, number) for c in self.clients])

    def distance(self, probabilities: Floats | None = None) -> float:
        """Return the L1 distance between the pool's labels and the target."""
        found = self.probabilities() if probabilities is None else probabilities
        labels = found @ np.array([client.labels for client in self.clients])
        wanted = self.design.target or np.full(labels.size, 1.0 / labels.size)
        return float(np.abs(labels / labels.sum() - np.array(wanted)).sum())
