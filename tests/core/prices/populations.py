"""Clients for the tests of prices, and all of them through the exchanges of an epoch."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.prices import Position, PriceDesign, PriceNumbers, PriceState

Floats = NDArray[np.float64]

MOST_EVALUATIONS = 9


def skewed(num_clients: int, num_classes: int, seed: int, concentration: float = 2.0) -> Floats:
    """Return label distributions around one that falls off over the classes."""
    shares = np.linspace(2.0, 0.5, num_classes)
    rng = np.random.default_rng(seed)
    return rng.dirichlet(concentration * shares / shares.sum() * num_classes / 4, num_clients)


def positions(distributions: Floats, weights: Floats | None = None) -> list[Position]:
    """Return where clients stand, for the uniform target."""
    weights = np.ones(len(distributions)) if weights is None else weights
    uniform = 1.0 / distributions.shape[1]
    return [
        Position(weight * (own - uniform), float(weight))
        for own, weight in zip(distributions, weights, strict=True)
    ]


def summed(
    numbers: PriceNumbers,
    state: PriceState,
    clients: Sequence[Position],
    seed: int = 0,
    remembered: Sequence[Floats] = (),
) -> NDArray[np.int64]:
    """Return the sums of the numbers of all clients; the first ones may remember prices."""
    rng = np.random.default_rng([seed, state.evaluations])
    rows = [
        state.contribution(numbers, client, rng, () if prices is None else prices.tolist())
        for client, prices in zip_longest(clients, remembered)
    ]
    return np.asarray(np.sum(rows, axis=0))


def settled(
    design: PriceDesign,
    numbers: PriceNumbers,
    clients: Sequence[Position],
    state: PriceState | None = None,
    remembered: Sequence[Floats] = (),
) -> PriceState:
    """Return the state after an epoch's exchanges; the first clients may remember prices."""
    state = state or PriceState.first(numbers)
    while not state.settled and state.evaluations < MOST_EVALUATIONS:
        sums = summed(numbers, state, clients, remembered=remembered)
        state = design.advance(numbers, state, sums, len(clients))
    return state


def probabilities(design: PriceDesign, state: PriceState, clients: Sequence[Position]) -> Floats:
    """Return the probabilities of all clients, without levels."""
    return np.array([design.probability(state, client, len(clients)) for client in clients])
