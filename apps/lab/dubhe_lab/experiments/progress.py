"""The progress of an experiment: bars on a terminal, and lines in a file or a pipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import WARNING, getLogger
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dubhe_lab.experiments.settings import STUDIED, CompareSettings, StudySettings
from dubhe_lab.report.picture import method_label

_LINES: Final = 5
"""Lines per method in a file or a pipe, after one for the initial model."""


@contextmanager
def compare_progress(
    console: Console, settings: CompareSettings
) -> Iterator[Callable[[str, int, float | None], None]]:
    """Show the progress of a comparison, with Flower's log limited to warnings.

    Yields the `on_round` callback of `dubhe_lab.experiments.compare.compare`.
    """
    bar, last = _bar(console, "rounds  {task.fields[remark]} ", "left"), settings.num_rounds
    task = bar.add_task("preparing", total=len(settings.methods) * last, remark="")
    told = {*range(0, last, -(-last // _LINES)), last}

    def update(method: str, server_round: int, accuracy: float | None) -> None:
        remark = "" if accuracy is None else f"accuracy {accuracy:.1%}"
        if remark:
            bar.update(task, remark=remark)
        # Round 0 is the initial model, which nobody trains.
        bar.update(task, advance=min(server_round, 1), description=method_label(method))
        if server_round in told and not console.is_terminal:
            rounds = f"{method_label(method)}: round {server_round} of {last}"
            console.print("  ".join(filter(None, [rounds, remark])), highlight=False)

    if not console.is_terminal:
        counted = f"{len(settings.methods)} methods, {settings.num_rounds} rounds each"
        console.print(f"{settings.dataset}: {counted}", highlight=False)
    with flower_log_level(WARNING), bar:
        yield update


class StudyProgress:
    """Shows what a study does, in one bar per method.

    A file or a pipe gets one line per method, and one per exchange before the first selection.
    """

    def __init__(self, bar: Progress, num_rounds: int) -> None:
        self._bar = bar
        self._tasks = {
            method: bar.add_task(method_label(method), start=False, total=num_rounds, remark="")
            for method in STUDIED
        }
        self._last = ""

    def answer(self, method: str, stage: str, num_answered: int, num_asked: int) -> None:
        """Show how many clients have answered an exchange."""
        self._show(method, remark=f"{stage}: {num_answered} of {num_asked}")
        if not self._bar.tasks[self._tasks[method]].completed:
            self._say(f"{method_label(method)}: {stage}, {num_asked} to answer")

    def select(self, method: str, _server_round: int) -> None:
        """Show that a round's clients are selected."""
        self._show(method, advance=1)
        self._say(f"{method_label(method)} selects")

    def _show(self, method: str, *, remark: str = "", advance: int = 0) -> None:
        self._bar.start_task(self._tasks[method])
        self._bar.update(self._tasks[method], advance=advance, remark=remark)

    def _say(self, sentence: str) -> None:
        if sentence != self._last and not self._bar.console.is_terminal:
            self._bar.console.print(sentence, highlight=False)
        self._last = sentence


@contextmanager
def study_progress(console: Console, settings: StudySettings) -> Iterator[StudyProgress]:
    """Show the progress of a study, and yield the `StudyProgress` to report it to."""
    with _bar(console, "rounds", "left  {task.fields[remark]}") as bar:
        yield StudyProgress(bar, settings.num_rounds)


def _bar(console: Console, before: str, after: str) -> Progress:
    """Return a bar that counts rounds, with texts before and after the remaining time."""
    texts = TextColumn("[bold]{task.description}"), TextColumn(before), TextColumn(after)
    columns = texts[0], BarColumn(), MofNCompleteColumn(), texts[1], TimeRemainingColumn(), texts[2]
    return Progress(*columns, console=console, disable=not console.is_terminal)


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
