"""Results of a comparison as JSON, and figures made from them."""

from dubhe_flwr.report.figures import save_figures
from dubhe_flwr.report.results import (
    ClassProportions,
    ComparisonResults,
    FederationSummary,
    MethodResult,
)

__all__ = [
    "ClassProportions",
    "ComparisonResults",
    "FederationSummary",
    "MethodResult",
    "save_figures",
]
