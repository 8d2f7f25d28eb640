"""What experiments found, as a table and a sentence for the terminal."""

from dubhe_flwr.report.picture import method_label
from dubhe_flwr.report.results import ComparisonResults, MethodResult, Results, StudyResults
from dubhe_flwr.report.table import Table

__all__ = ["study_sentence", "study_table", "summary_sentence", "summary_table"]

_MEGABYTE = 1e6
_EARLY_ROUNDS = 100


def summary_table(results: ComparisonResults) -> Table:
    """Return a row for each method of a comparison."""
    num_last = max(len(method.final_accuracies) for method in results.methods.values())
    columns = (
        "Method",
        f"Accuracy\n(last {num_last})",
        *("Mean\nEMD", "Local\nEMD", "Coverage"),
        *("Selection\nseconds", "Training\nseconds", "MB\nup", "MB\ndown"),
    )
    rows = [
        (
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
        for name, method in results.methods.items()
    ]
    return Table(_title(results), columns, rows)


def summary_sentence(results: ComparisonResults) -> str:
    """Return in one sentence how Dubhe fared beside random, or else which method was best."""
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


def study_table(results: StudyResults) -> Table:
    """Return a row for each method of a study."""
    columns = (
        "Method",
        *("Mean\nEMD", "s.d.", "Bias", "Local\nEMD"),
        *("Coverage", "in 100\nrounds", "Effective\nclients", "Seconds"),
    )
    rows = [
        (
            method_label(name),
            f"{method.mean_emd:.3f}",
            f"{method.sd_emd:.3f}",
            f"{method.bias:.3f}",
            f"{method.mean_local_emd:.2f}",
            f"{method.coverage:.0%}",
            f"{method.coverage_100:.0%}" if len(method.emd) >= _EARLY_ROUNDS else "",
            f"{method.effective_clients:.0f}",
            f"{method.seconds:.1f}",
        )
        for name, method in results.methods.items()
    ]
    return Table(_title(results), columns, rows)


def study_sentence(results: StudyResults) -> str:
    """Return what was found in one sentence, and what travelled for it if anything did."""
    dubhe, random, greedy = (results.methods[name] for name in ("dubhe", "random", "greedy"))
    found = (
        f"Over {len(dubhe.emd)} rounds the mean distance of the selected data from uniform was "
        f"{dubhe.mean_emd:.2f} with Dubhe, {random.mean_emd:.2f} at random and "
        f"{greedy.mean_emd:.2f} with the oracle; Dubhe selected {dubhe.coverage:.0%} of the "
        f"clients, the oracle {greedy.coverage:.0%}"
    )
    if dubhe.messages is None or dubhe.bytes_up is None or dubhe.bytes_down is None:
        return f"{found}."
    return (
        f"{found}; Dubhe took {dubhe.messages} messages with their replies, "
        f"{dubhe.bytes_up / _MEGABYTE:.1f} MB up and {dubhe.bytes_down / _MEGABYTE:.1f} MB down."
    )


def _title(results: Results) -> str:
    return f"{results.federation.name}, {results.federation.num_clients} clients"


def _over_last(method: MethodResult) -> str:
    number = len(method.final_accuracies)
    return "in the last round" if number == 1 else f"over the last {number} evaluations"
