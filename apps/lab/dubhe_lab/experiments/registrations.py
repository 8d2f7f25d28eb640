"""Registrations in the clear: how much the noise of prices changes from one run to the next.

The noise of a registration lasts as long as its prices, so a single simulated run says little
about a small federation. Through the protocol, one registration takes seconds; this module fits
the same prices to the same noisy sums for all clients at once, and draws the same way.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubhe_flwr.core.determination import fill_or_trim
from dubhe_flwr.core.distribution import label_distribution
from dubhe_flwr.core.prices import PriceDesign, PriceState
from dubhe_flwr.protocol import Settings
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.wire.roster import LARGEST_WEIGHT
from dubhe_flwr.rules import Frame, Prices


def has_lasting_noise(settings: Settings, num_clients: int) -> bool:
    """Return whether clients draw by noisy prices, without an agent that makes up for the noise."""
    rule, volunteers = settings.rule, _num_volunteers(settings, num_clients)
    return (
        isinstance(rule, Prices)
        and rule.noise != 0.0
        and not settings.determined.has_agent
        and rule.can_continue(num_clients, volunteers)
    )


def registered_rounds(
    settings: Settings, label_counts: NDArray[np.int64], rng: np.random.Generator
) -> Iterator[list[int]]:
    """Register all clients once, with new noise, and yield each round's K clients, forever.

    The settings have lasting noise. Later registrations are left out: they move prices little.
    """
    probabilities = _probabilities(settings, label_counts, rng)
    everyone = np.ones(len(label_counts), dtype=bool)
    while True:
        volunteers = rng.random(len(label_counts)) < probabilities
        yield fill_or_trim(volunteers, everyone, settings.num_participants, rng).tolist()


def _probabilities(
    settings: Settings, label_counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Fit prices to noisy sums, and return the probability that each client volunteers."""
    rule: Any = settings.rule
    num_clients, num_classes = label_counts.shape
    volunteers = _num_volunteers(settings, num_clients)
    weights, largest = np.ones(num_clients), 1.0
    if not settings.equal_weights:
        largest, sizes = LARGEST_WEIGHT, label_counts.sum(axis=1)
        mean = np.minimum(sizes, largest * np.median(sizes)).mean()
        most = min(largest, rule.heaviest)
        weights = np.clip(sizes / mean, 1.0 / largest, most)
    labels = weights[:, None] * label_distribution(label_counts)
    design = PriceDesign(
        num_classes,
        settings.num_participants,
        float(volunteers),
        rule.coverage,
        rule.local_skew,
        largest_weight=largest,
        sigma=rule.noise,
    )
    frame = Frame(num_classes, num_clients, largest)
    most_sums = rule.num_sums(frame, num_clients)
    state = PriceState()
    while not state.settled and state.num_sums < most_sums:
        deviations = design.deviations(num_clients, opening=not state.num_sums)
        noise = deviations * Committee.num_members**0.5 * rng.standard_normal(deviations.size)
        sums = design.values(state, labels, weights).sum(axis=0) + noise
        state = design.advance(state, sums / num_clients, num_clients, Committee.num_members)
    return design.probabilities(state, labels, num_clients, weights, rng.random(num_clients))


def _num_volunteers(settings: Settings, num_clients: int) -> int:
    return settings.determined.num_volunteers(settings.num_participants, num_clients)
