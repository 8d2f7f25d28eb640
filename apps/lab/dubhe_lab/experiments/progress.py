"""The progress of an experiment: one bar on a terminal, and lines in a file or a pipe."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from logging import WARNING, getLogger
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dubhe_lab.report.methods import method_label

_LINES: Final = 5
"""Lines per method in a file or a pipe, after one for its beginning."""
_SPEED_OVER_SECONDS: Final = 1800


@contextmanager
def progress_bar(console: Console, total: float) -> Iterator[Callable[..., None]]:
    """Show progress towards a total, with Flower's log limited to warnings.

    Yields `rich.progress.Progress.update` for the bar, whose `remark` follows the remaining time.
    """
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left  {task.fields[remark]}"),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=_SPEED_OVER_SECONDS,
    )
    task = bar.add_task("preparing", total=total or None, remark="")
    with flower_log_level(WARNING), bar:
        yield partial(bar.update, task)


def say_in_file(console: Console, sentence: str) -> None:
    """Write a line to a file or a pipe, where there is no bar."""
    if not console.is_terminal:
        console.print(sentence, highlight=False)


@contextmanager
def rounds_progress(
    console: Console, methods: Sequence[str], num_rounds: int
) -> Iterator[Callable[[str, int, float | None], None]]:
    """Show the progress of a comparison; yields its `on_round`."""
    told = {*range(0, num_rounds, -(-num_rounds // _LINES)), num_rounds}
    with progress_bar(console, len(methods) * num_rounds) as show:

        def update(method: str, server_round: int, accuracy: float | None) -> None:
            label = method_label(method)
            remark = {} if accuracy is None else {"remark": f"accuracy {accuracy:.1%}"}
            completed = methods.index(method) * num_rounds + server_round
            show(completed=completed, description=label, **remark)
            if server_round in told:
                line = f"{label}: round {server_round} of {num_rounds}"
                say_in_file(console, "  ".join([line, *remark.values()]))

        yield update


@contextmanager
def flower_log_level(level: int) -> Iterator[None]:
    """Set the level of Flower's log, and restore it afterwards."""
    logger = getLogger("flwr")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
