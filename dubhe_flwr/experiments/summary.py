"""What a comparison found, as a table and a sentence for the terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dubhe_flwr.report import ComparisonResults, MethodResult
from dubhe_flwr.report.style import method_label

__all__ = ["summary_sentence", "summary_table"]

_MEGABYTE = 1e6


def summary_table(results: ComparisonResults) -> Table:
    """Return a row for each method.

    Parameters
    ----------
    results : ComparisonResults
        What the comparison found.
    """
    federation = results.federation
    num_last = max(len(method.final_accuracies) for method in results.methods.values())
    table = Table(
        title=f"{federation.name}, {federation.num_clients} clients",
        box=SIMPLE_HEAD,
        padding=(0, 0),
        pad_edge=False,
    )
    table.add_column("Method", style="bold")
    for heading in (
        f"Accuracy\n(last {num_last})",
        "Mean\nEMD",
        "Local\nEMD",
        "Coverage",
        "Selection\nseconds",
        "Training\nseconds",
        "MB\nup",
        "MB\ndown",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, method in results.methods.items():
        table.add_row(
            method_label(name),
            f"{method.final_accuracy:.1%}",
            f"{method.mean_emd:.3f}",
            f"{method.mean_local_emd:.2f}",
            f"{method.coverage:.0%}",
            f"{method.selection_seconds:.1f}",
            f"{method.training_seconds:.1f}",
            f"{method.bytes_up / _MEGABYTE:.1f}",
            f"{method.bytes_down / _MEGABYTE:.1f}",
        )
    return table


def summary_sentence(results: ComparisonResults) -> str:
    """Return what was found in one sentence: Dubhe beside random, or else the best method.

    Parameters
    ----------
    results : ComparisonResults
        What the comparison found.
    """
    methods = results.methods
    if {"dubhe", "random"} <= methods.keys():
        dubhe, random = methods["dubhe"], methods["random"]
        points = 100 * (dubhe.final_accuracy - random.final_accuracy)
        return (
            f"With Dubhe the mean accuracy is {dubhe.final_accuracy:.1%} {_over_last(dubhe)}, "
            f"with random selection {random.final_accuracy:.1%} ({points:+.1f} points); the mean "
            f"distance of their training data from uniform was {dubhe.mean_emd:.2f} and "
            f"{random.mean_emd:.2f}."
        )
    best = max(methods, key=lambda name: methods[name].final_accuracy)
    return (
        f"Best was {method_label(best)} with a mean accuracy of {methods[best].final_accuracy:.1%} "
        f"{_over_last(methods[best])}; the mean "
        f"distance of its training data from uniform was {methods[best].mean_emd:.2f}."
    )


def _over_last(method: MethodResult) -> str:
    number = len(method.final_accuracies)
    return "in the last round" if number == 1 else f"over the last {number} evaluations"
