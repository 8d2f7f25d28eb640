"""One progress bar over all rounds of all methods."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import WARNING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from dubhe_flwr.experiments.engine import flower_log_level
from dubhe_flwr.experiments.settings import CompareSettings
from dubhe_flwr.report.style import method_label

__all__ = ["compare_progress"]


@contextmanager
def compare_progress(
    console: Console, settings: CompareSettings
) -> Iterator[Callable[[str, int, float], None]]:
    """Show how far a comparison is, and keep Flower's log to its warnings meanwhile.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it.
    settings : CompareSettings
        What is compared.

    Yields
    ------
    callable (str, int, float) -> None
        To be told method, round and accuracy after each evaluation.

    Examples
    --------
    >>> settings = CompareSettings.for_dataset("digits", num_rounds=1)
    >>> with compare_progress(Console(quiet=True), settings) as update:
    ...     update("random", 1, 0.5)
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds  {task.fields[accuracy]} "),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    task = bar.add_task("preparing", total=len(settings.methods) * settings.num_rounds, accuracy="")

    def update(method: str, server_round: int, accuracy: float) -> None:
        bar.update(
            task,
            advance=1 if server_round else 0,  # round 0 is the initial model
            description=f"[bold]{method_label(method)}",
            accuracy=f"accuracy {accuracy:.1%}",
        )

    with flower_log_level(WARNING), bar:
        yield update
