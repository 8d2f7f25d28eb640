"""Results of experiments as JSON, and figures made from them."""

from dubhe_flwr.report.panels import save_figures, save_study_figure
from dubhe_flwr.report.results import (
    ClassProportions,
    ComparisonResults,
    FederationSummary,
    MethodResult,
    Results,
    Selected,
    SelectionResult,
    StudyResults,
)

__all__ = [
    "ClassProportions",
    "ComparisonResults",
    "FederationSummary",
    "MethodResult",
    "Results",
    "Selected",
    "SelectionResult",
    "StudyResults",
    "save_figures",
    "save_study_figure",
]
