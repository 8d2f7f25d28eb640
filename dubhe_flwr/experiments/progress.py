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
    num_rounds = len(settings.methods) * settings.num_rounds
    with flower_log_level(WARNING), _bar(console, num_rounds) as advance:
        last = "accuracy unknown"

        def update(method: str, server_round: int, accuracy: float | None) -> None:
            nonlocal last
            if accuracy is not None:
                last = f"accuracy {accuracy:.1%}"
            # Round 0 is the initial model.
            advance(method, min(server_round, 1), last)

        yield update


@contextmanager
def _bar(console: Console, num_rounds: int) -> Iterator[Callable[[str, int, str], None]]:
    """Yield what is to be called with method, new rounds and a remark."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds  {task.fields[remark]} "),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    task = bar.add_task("preparing", total=num_rounds, remark="")

    def advance(method: str, new_rounds: int, remark: str) -> None:
        description = f"[bold]{method_label(method)}"
        bar.update(task, advance=new_rounds, description=description, remark=remark)

    with bar:
        yield advance
