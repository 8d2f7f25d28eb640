"""Registrations in the clear: how much the noise of prices changes from one run to the next.

The noise of a registration lasts as long as its prices, so a single simulated run says little
about a small federation. With the protocol, one registration takes seconds. This module is faster:
it settles the rule for all clients at once, on the same noisy sums, and draws in the same way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.determination import fill_or_trim
from dubhe_flwr.core.randomness import gaussian, seed_of
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.roster import PUBLIC_KEY_BYTES, Roster, weight_of
from dubhe_flwr.protocol.wire.terms import Terms
from dubhe_flwr.rules import Own, Population, Prices, Settled


def has_lasting_noise(settings: Settings, label_counts: NDArray[np.int64]) -> bool:
    """Return whether clients draw by noisy prices, without an agent that makes up for the noise."""
    rule = settings.rule
    return (
        isinstance(rule, Prices)
        and rule.noise != 0.0
        and not settings.determined.has_agent
        and rule.can_continue(_population(settings, label_counts))
    )


def _population(settings: Settings, label_counts: NDArray[np.int64]) -> Population:
    """Return what the rule is told about a registration."""
    num_registered = min(len(label_counts), settings.max_registered)
    terms = Terms(settings.announced(seed=0), label_counts.shape[1])
    return terms.population(num_registered, num_registered)


def samples(
    settings: Settings, label_counts: NDArray[np.int64], rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], Sequence[Settled]]]:
    """Yield the clients that register, a new sample each time, and how the rule settles them."""
    while True:
        rows = rng.choice(len(label_counts), settings.max_registered, replace=False)
        yield rows, next(registrations(settings, label_counts[rows], rng))


def registrations(
    settings: Settings, label_counts: NDArray[np.int64], rng: np.random.Generator
) -> Iterator[Sequence[Settled]]:
    """Register all clients, again and again with new noise, and yield how the rule settles them.

    The settings describe a simulation in the clear, with lasting noise. Clients are blurred as in
    simulations with the settings' seed, the next seed, and so on.
    """
    rule: Any = settings.rule
    population = _population(settings, label_counts)
    sizes = label_counts.sum(axis=1).tolist()
    roster = Roster(bytes(PUBLIC_KEY_BYTES * len(sizes)), tuple(sizes))
    mean = None if settings.equal_weights else roster.mean_examples
    owns = [
        Own(counts, weight_of(size, mean), rng)
        for counts, size in zip(label_counts, sizes, strict=True)
    ]
    registered = np.sum([rule.contribution(own, population) for own in owns], axis=0)
    for seed in count(settings.seed or 0):
        blurred = [
            replace(own, lasting_seed=seed_of(seed, "lasting", str(row)))
            for row, own in enumerate(owns)
        ]
        yield settled(rule, blurred, population, registered, rng)[1]


def settled(
    rule: Prices,
    owns: Sequence[Own],
    population: Population,
    registered: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    state: tuple[float, ...] | None = None,
) -> tuple[int, Sequence[Settled]]:
    """Settle clients by sums with a committee's noise, from the sum of what they registered.

    Returns the number of sums, and each client's outcome. `state` is the rule's state after the
    last epoch, if this one continues it.
    """
    sums, num_sums = registered, 0
    while True:
        deviations: Any = rule.deviations(population, num_sums)
        uniform = 1.0 - rng.random((population.num_members, 2, deviations.size))
        noise = sum(gaussian(deviations, numbers) for numbers in uniform)
        outcomes: Any = rule.settle_all(owns, population, state, sums + noise)
        num_sums += 1
        if isinstance(outcomes[0], Settled):
            return num_sums, outcomes
        sums = np.sum([each.contribution for each in outcomes], axis=0)
        state = outcomes[0].state


def drawn_rounds(
    settings: Settings, settled: Sequence[Settled], rng: np.random.Generator
) -> Iterator[list[int]]:
    """Yield each round's K clients, forever.

    Later registrations are left out: they move prices little.
    """
    probabilities = np.array([each.probability for each in settled])
    everyone = np.ones(len(settled), dtype=bool)
    while True:
        volunteers = rng.random(len(settled)) < probabilities
        yield fill_or_trim(volunteers, everyone, settings.num_participants, rng).tolist()
