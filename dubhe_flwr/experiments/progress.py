"""One progress bar over all rounds of all methods; a file or a pipe gets lines instead."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import WARNING
from typing import Final

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

_LINES: Final = 5
"""Lines for each method in a file or a pipe, beside that of the initial model."""


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
        disable=not console.is_terminal,
    )
    num_rounds = len(settings.methods) * settings.num_rounds
    task = bar.add_task("preparing", total=num_rounds, remark="")
    told = {*range(0, settings.num_rounds, -(-settings.num_rounds // _LINES)), settings.num_rounds}

    def update(method: str, server_round: int, accuracy: float | None) -> None:
        remark = "" if accuracy is None else f"accuracy {accuracy:.1%}"
        if remark:
            bar.update(task, remark=remark)
        # Round 0 is the initial model.
        advance = min(server_round, 1)
        bar.update(task, advance=advance, description=f"[bold]{method_label(method)}")
        if server_round in told and not console.is_terminal:
            rounds = f"{method_label(method)}: round {server_round} of {settings.num_rounds}"
            console.print("  ".join(filter(None, [rounds, remark])), highlight=False)

    with flower_log_level(WARNING), bar:
        yield update
