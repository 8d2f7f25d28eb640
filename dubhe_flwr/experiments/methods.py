"""The ways of selecting that experiments compare: two baselines, and Dubhe under its rules."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["COMPARED", "DUBHE_RULES", "METHODS", "STUDIED"]

DUBHE_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "dubhe-one-off": {"participation": "paper", "determination": "one-off"},
    "dubhe-paper": {"participation": "paper", "determination": "tries"},
    "dubhe-search": {"participation": "paper", "determination": "tries", "thresholds": "search"},
    "dubhe-grouped": {"participation": "paper", "determination": "grouped"},
    "dubhe-calibrated": {"determination": "tries", "coverage": 0.0, "local_skew": 0.0},
    "dubhe-balanced": {"determination": "grouped", "local_skew": 0.0},
    "dubhe-wide": {"determination": "grouped", "coverage": 1.0, "local_skew": 0.0},
    "dubhe": {},
}
"""What `Settings` differ in: the paper's rule, each option alone and together, our defaults."""

METHODS: Final = ("random", *DUBHE_RULES, "greedy")
"""All of them."""

COMPARED: Final = ("random", "dubhe-paper", "dubhe", "greedy")
"""Those that are compared where nothing else is asked for."""

STUDIED: Final = ("random", "dubhe", "greedy")
"""Those of a study, in which Dubhe selects by the rule that the settings name."""
