"""Results of a study that was never run, for the tests that only read them."""

import numpy as np
from comparison_results import RESULTS

from dubhe_flwr.report import SelectionResult, StudyResults


def selection_result(name: str, num_rounds: int = 40) -> SelectionResult:
    """Return a plausible result that differs by name."""
    distance = {"random": 0.65, "dubhe": 0.23, "greedy": 0.05}[name]
    rounds = np.arange(num_rounds)
    return SelectionResult(
        emd=tuple((distance * (1 + 0.1 * np.sin(rounds))).tolist()),
        local_emd=(1.4,) * num_rounds,
        class_proportions=RESULTS.methods[name].class_proportions,
        coverage=0.75,
        coverage_100=0.5,
        effective_clients=123.4,
        seconds=1.5,
    )


STUDY = StudyResults(
    config={"seed": 0},
    federation=RESULTS.federation,
    methods={name: selection_result(name) for name in ("random", "dubhe", "greedy")},
)
