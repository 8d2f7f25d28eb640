"""The mathematics of Dubhe in pure numpy: no Flower, no torch, no input or output."""

from dubhe_flwr.core.codebook import Category, Codebook
from dubhe_flwr.core.determination import (
    expected_volunteers,
    far_apart,
    group_sizes,
    groups_of_round,
    tries_of_round,
)
from dubhe_flwr.core.distribution import (
    FIXED_POINT_SCALE,
    MAX_SAMPLES,
    average_emd,
    coverage,
    distance_to_uniform,
    fixed_point_distribution,
    global_distribution,
    imbalance_ratio,
    label_distribution,
    population_distribution,
    with_square,
)
from dubhe_flwr.core.group_choice import best_groups, best_scored_try, scores_of
from dubhe_flwr.core.randomness import generator, private_draws, seeded_draws
from dubhe_flwr.core.registration import (
    MAX_REGISTRY_LENGTH,
    check_thresholds,
    default_thresholds,
    dominating_category,
    overall_registry,
    participation_probability,
)
from dubhe_flwr.core.search import best_candidate, candidate_grid, search_contribution

__all__ = [
    "FIXED_POINT_SCALE",
    "MAX_REGISTRY_LENGTH",
    "MAX_SAMPLES",
    "Category",
    "Codebook",
    "average_emd",
    "best_candidate",
    "best_groups",
    "best_scored_try",
    "candidate_grid",
    "check_thresholds",
    "coverage",
    "default_thresholds",
    "distance_to_uniform",
    "dominating_category",
    "expected_volunteers",
    "far_apart",
    "fixed_point_distribution",
    "generator",
    "global_distribution",
    "group_sizes",
    "groups_of_round",
    "imbalance_ratio",
    "label_distribution",
    "overall_registry",
    "participation_probability",
    "population_distribution",
    "private_draws",
    "scores_of",
    "search_contribution",
    "seeded_draws",
    "tries_of_round",
    "with_square",
]
