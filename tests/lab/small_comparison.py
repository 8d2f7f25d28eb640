"""A comparison small enough to run in a second."""

from typing import Any

from dubhe_lab.experiments import CompareSettings
from dubhe_lab.experiments.compare import compare
from dubhe_lab.experiments.progress import flower_log_level
from dubhe_lab.report.results import ComparisonResults

SMALL: dict[str, Any] = {"num_clients": 24, "num_samples": 16, "num_participants": 5, "emd": 1.0}
SMALL |= {"num_rounds": 3, "tries": 5, "key_bits": 512, "device": "cpu"}


def small_settings(**given: Any) -> CompareSettings:
    """Return settings of a tiny federation with small keys."""
    return CompareSettings.for_dataset("digits", **{**SMALL, **given})


def run(settings: CompareSettings) -> ComparisonResults:
    """Run a comparison without Flower's log."""
    with flower_log_level(30):
        return compare(settings)
