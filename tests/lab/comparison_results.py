"""Made-up results of a comparison, for tests that only read results."""

import numpy as np

from dubhe_lab.data import half_normal_proportions
from dubhe_lab.report.results import (
    ClassProportions,
    ComparisonResults,
    FederationSummary,
    MethodResult,
)

NUM_CLASSES = 10


def method_result(name: str, num_rounds: int = 40) -> MethodResult:
    """Return a plausible result that differs by name."""
    skewed = half_normal_proportions(NUM_CLASSES, 10)
    share = {"random": 1.0, "dubhe": 0.3, "greedy": 0.05}.get(name, 0.5)
    proportions = share * skewed + (1 - share) / NUM_CLASSES
    rounds = np.arange(num_rounds + 1)
    accuracy = 0.1 + (0.8 - 0.3 * share) * (1 - np.exp(-rounds / 10))
    return MethodResult(
        num_rounds=num_rounds,
        accuracy=tuple(accuracy.tolist()),
        loss=tuple((1 - accuracy).tolist()),
        emd=tuple((share * (0.6 + 0.05 * np.sin(rounds[1:]))).tolist()),
        local_emd=(1.4,) * num_rounds,
        coverage=1.0 - 0.1 * share,
        class_proportions=ClassProportions(tuple(proportions.tolist()), (0.01,) * NUM_CLASSES),
        selection_seconds=2.0,
        training_seconds=3.0,
        bytes_up=4_000_000,
        bytes_down=5_000_000,
        selection_bytes_up=1_000,
        selection_bytes_down=2_000,
        notes=("Round 3: An agent did not determine; another one is asked.",),
    )


RESULTS = ComparisonResults(
    config={"dataset": "digits", "seed": 0},
    federation=FederationSummary(
        name="digits-10/1.5",
        num_clients=150,
        num_classes=NUM_CLASSES,
        num_samples=32,
        rho=10.0,
        emd=1.5,
        class_proportions=tuple(half_normal_proportions(NUM_CLASSES, 10).tolist()),
    ),
    methods={name: method_result(name) for name in ("random", "dubhe", "greedy")},
)
