"""The results of a comparison for the terminal: one table and one sentence."""

from collections.abc import Callable

from dubhe_lab.report.methods import method_label, server_learns
from dubhe_lab.report.results import ComparisonResults, MethodResult, rounds_to
from dubhe_lab.report.table import Table


def summary_table(results: ComparisonResults) -> Table:
    """Return the table of a comparison, with one row per method.

    If a method has clients evaluate models, the number of evaluations replaces the training time,
    which is similar for all methods.
    """
    num_last = max(len(method.final_accuracies) for method in results.methods.values())
    target = results.target_accuracy
    cells: dict[str, Callable[[MethodResult], str]] = {
        f"Accuracy\n(last {num_last})": lambda of: f"{of.final_accuracy:.1%}",
        f"Rounds\nto {target:.0%}": lambda of: f"{rounds_to(target, of.accuracy)}",
        "From\nuniform": lambda of: f"{of.mean_emd:.3f}",
        "Local\nskew": lambda of: f"{of.mean_local_emd:.2f}",
        "Cover-\nage": lambda of: f"{of.coverage:.0%}",
        "Select\n(s)": lambda of: f"{of.selection_seconds / of.num_rounds:.2f}",
        **(
            {"Extra\nevals": lambda of: f"{of.evaluations / of.num_rounds:.0f}"}
            if any(of.evaluations for of in results.methods.values())
            else {"Train\n(s)": lambda of: f"{of.training_seconds / of.num_rounds:.2f}"}
        ),
        "Select\n(KB)": lambda of: f"{_selection_bytes(of) / of.num_rounds / 1e3:.0f}",
    }
    # The last column shows which methods are oracles, so their names need not.
    rows = [
        (
            method_label(name).removesuffix(" (oracle)"),
            *(cell(method) for cell in cells.values()),
            server_learns(name),
        )
        for name, method in results.methods.items()
    ]
    federation = results.federation
    caption = f"{federation.name}, {federation.num_clients} clients; seconds and KB per round"
    return Table(caption, ("Method", *cells, "Server\nlearns"), rows)


def _selection_bytes(of: MethodResult) -> int:
    return of.selection_bytes_up + of.selection_bytes_down


def summary_sentence(results: ComparisonResults) -> str:
    """Return a sentence that compares Dubhe with random selection, or names the best method."""
    methods = results.methods
    if {"dubhe", "random"} <= methods.keys():
        dubhe, random = methods["dubhe"], methods["random"]
        points = 100 * (dubhe.final_accuracy - random.final_accuracy)
        return (
            f"Dubhe's mean accuracy is {dubhe.final_accuracy:.1%} {_over_last(dubhe)}, random "
            f"selection's {random.final_accuracy:.1%} ({points:+.1f} points, one seed); the "
            f"selected data's mean distance from uniform was {dubhe.mean_emd:.2f} with Dubhe and "
            f"{random.mean_emd:.2f} at random. {dubhe.privacy}".rstrip()
        )
    best, of = max(methods.items(), key=lambda each: each[1].final_accuracy)
    label = method_label(best)
    return f"The best method was {label}: {of.final_accuracy:.1%} {_over_last(of)}."


def _over_last(method: MethodResult) -> str:
    number = len(method.final_accuracies)
    return "in the last round" if number == 1 else f"over the last {number} evaluations"
