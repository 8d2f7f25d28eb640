"""One progress bar over all rounds of all methods of a comparison."""

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
) -> Iterator[Callable[[str, int, float | None], None]]:
    """Show how far a comparison is, and keep Flower's log to its warnings meanwhile.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it.
    settings : CompareSettings
        What is compared.

    Yields
    ------
    callable (str, int, float or None) -> None
        To be told method, round and accuracy after each round, None without an evaluation.

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
        TextColumn("rounds  {task.fields[remark]} "),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    num_rounds = len(settings.methods) * settings.num_rounds
    task = bar.add_task("preparing", total=num_rounds, remark="")

    def update(method: str, server_round: int, accuracy: float | None) -> None:
        if accuracy is not None:
            bar.update(task, remark=f"accuracy {accuracy:.1%}")
        # Round 0 is the initial model.
        advance = min(server_round, 1)
        bar.update(task, advance=advance, description=f"[bold]{method_label(method)}")

    with flower_log_level(WARNING), bar:
        yield update
