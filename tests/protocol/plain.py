"""Dubhe in plain numbers, by the functions of the core, with nothing encrypted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    best_groups,
    best_scored_try,
    calibrated_probability,
    expected_volunteers,
    fixed_point_distribution,
    generator,
    group_sizes,
    groups_of_round,
    moments,
    overall_registry,
    participation_probability,
    seeded_draws,
    tries_of_round,
    with_square,
)
from dubhe_flwr.protocol import Settings


@dataclass(frozen=True)
class PlainRound:
    """What a round is in plain numbers: selections and their sums, and who trains."""

    overall: NDArray[np.int64]
    probability: NDArray[np.float64]
    selections: list[NDArray[np.int64]]
    sums: NDArray[np.int64] | None
    best: tuple[int, ...]
    chosen: list[int]


def plain_probability(settings: Settings, label_counts: ArrayLike) -> NDArray[np.float64]:
    """Return the probability of each client, as precise as it travels."""
    counts = np.asarray(label_counts)
    thresholds = dict(settings.candidates[0])
    overall, slots = overall_registry(counts, settings.codebook, thresholds)
    volunteers = expected_volunteers(
        settings.num_participants,
        settings.tries if settings.groups(len(counts)) else 1,
        len(counts),
    )
    if settings.participation == "paper":
        return participation_probability(overall, volunteers)[slots]
    sums = sum(
        moments(
            fixed_point_distribution(row),
            int(slot),
            overall,
            settings.codebook,
            settings.min_cohort,
        )
        for row, slot in zip(counts, slots, strict=True)
    )
    by_category = calibrated_probability(
        overall,
        sums,
        settings.num_participants,
        num_volunteers=volunteers,
        coverage=settings.coverage,
        floor=settings.floor,
    )
    rounded = np.rint(by_category * FIXED_POINT_SCALE) / FIXED_POINT_SCALE
    return np.asarray(rounded[slots])


def plain_round(
    settings: Settings, label_counts: ArrayLike, server_round: int, first_round: int
) -> PlainRound:
    """Choose who trains in a round of an epoch in which all clients are there."""
    counts = np.asarray(label_counts)
    num_clients, num_participants = len(counts), settings.num_participants
    seed = settings.seed or 0
    overall, _ = overall_registry(counts, settings.codebook, dict(settings.candidates[0]))
    probability = plain_probability(settings, counts)
    # An agent decrypts fewer sums than half the clients.
    most_sums = min(settings.max_sums_per_epoch, (num_clients - 1) // 2)
    num_draws = max(1, min(most_sums, settings.tries)) if settings.determination == "tries" else 1
    draws = [seeded_draws(seed, str(k), server_round, 1, num_draws)[0] for k in range(num_clients)]
    decisions = np.array(draws) < probability[:, np.newaxis]
    eligible = np.ones(num_clients, dtype=bool)
    num_selections, num_chosen = num_draws, 1
    if settings.determination == "grouped":
        num_chosen = num_participants // settings.group_size
        volunteers = expected_volunteers(num_participants, settings.tries, num_clients)
        num_selections = min(most_sums, max(num_chosen, volunteers // settings.group_size))
    has_choice = num_selections > num_chosen and num_clients - 1 > num_participants
    if has_choice:
        order = generator(seed, "agents", first_round).permutation(num_clients)
        eligible[order[server_round - first_round]] = False
    if not has_choice or settings.determination != "grouped":
        selections = tries_of_round(
            decisions,
            eligible,
            num_participants,
            seed,
            server_round,
            draft_by_yes=settings.participation == "calibrated",
        )
    else:
        selections = groups_of_round(
            decisions,
            eligible,
            num_participants,
            settings.group_size,
            max_groups=num_selections,
            seed=seed,
            server_round=server_round,
        )
    if not has_choice:
        chosen = selections[0].tolist()
        return PlainRound(overall, probability, selections, None, (0,), chosen)
    fixed = np.array([with_square(fixed_point_distribution(row)) for row in counts])
    sums = np.array([fixed[members].sum(axis=0) for members in selections])
    best = _best(settings, sums, [len(members) for members in selections])
    chosen = sorted(np.concatenate([selections[index] for index in best]).tolist())
    return PlainRound(overall, probability, selections, sums, best, chosen)


def _best(settings: Settings, sums: Any, sizes: list[int]) -> tuple[int, ...]:
    if settings.determination == "tries":
        return (best_scored_try(sums, settings.local_skew or 0.0),)
    wanted = group_sizes(settings.num_participants, settings.group_size)
    return tuple(best_groups(sums, sizes, wanted, settings.local_skew or 0.0).tolist())
