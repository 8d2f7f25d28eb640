"""What a study of selection found, as a table and a sentence for the terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dubhe_flwr.report import StudyResults
from dubhe_flwr.report.style import method_label

__all__ = ["study_sentence", "study_table"]

_MEGABYTE = 1e6
_EARLY_ROUNDS = 100


def study_table(results: StudyResults) -> Table:
    """Return a row for each method.

    Parameters
    ----------
    results : StudyResults
        What the study found.
    """
    federation = results.federation
    table = Table(
        title=f"{federation.name}, {federation.num_clients} clients",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("Method", style="bold")
    for heading in (
        "Mean\nEMD",
        "s.d.",
        "Bias",
        "Local\nEMD",
        "Coverage",
        "in 100\nrounds",
        "Effective\nclients",
        "Seconds",
    ):
        table.add_column(heading, justify="right")
    for name, method in results.methods.items():
        table.add_row(
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
    return table


def study_sentence(results: StudyResults) -> str:
    """Return what was found in one sentence, and what travelled for it if anything did.

    Parameters
    ----------
    results : StudyResults
        What the study found.
    """
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
