"""The ways of selecting that experiments compare: two baselines, and Dubhe under its rules."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["COMPARED", "DUBHE_RULES", "METHODS"]

_PAPER: Final = {"participation": "paper", "determination": "tries"}

DUBHE_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "dubhe-one-off": {"participation": "paper", "determination": "one-off"},
    "dubhe-paper": _PAPER,
    "dubhe-grouped": {"participation": "paper", "determination": "grouped", "local_skew": 0.0},
    "dubhe-calibrated": {
        "participation": "calibrated",
        "determination": "tries",
        "coverage": 0.0,
        "local_skew": 0.0,
    },
    "dubhe-balanced": {
        "participation": "calibrated",
        "determination": "grouped",
        "coverage": 0.1,
        "local_skew": 0.0,
    },
    "dubhe-wide": {
        "participation": "calibrated",
        "determination": "grouped",
        "coverage": 1.0,
        "local_skew": 0.0,
    },
    "dubhe": {},
}
"""What `Settings` differ in: the paper's rule, each option alone and together, our defaults."""

METHODS: Final = ("random", *DUBHE_RULES, "greedy")
"""All of them."""

COMPARED: Final = ("random", "dubhe-paper", "dubhe", "greedy")
"""Those that are compared where nothing else is asked for."""
