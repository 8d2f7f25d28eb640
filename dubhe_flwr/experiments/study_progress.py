"""How far a study of selection is: a bar for each method, or lines where no terminal is there."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from dubhe_flwr.experiments.methods import STUDIED
from dubhe_flwr.experiments.study_settings import StudySettings
from dubhe_flwr.report.style import method_label

__all__ = ["StudyProgress", "study_progress"]


class StudyProgress:
    """To be told what a study does.

    Parameters
    ----------
    bar : rich.progress.Progress
        What to show it in. A file or a pipe gets a line for each method, and one for each exchange
        before the first selection of a method, since that one takes as long as many others.
    num_rounds : int
        Rounds of each method.
    """

    def __init__(self, bar: Progress, num_rounds: int) -> None:
        self._bar = bar
        self._tasks = {
            method: bar.add_task(method_label(method), start=False, total=num_rounds, remark="")
            for method in STUDIED
        }
        self._last = ""

    def answer(self, method: str, stage: str, num_answered: int, num_asked: int) -> None:
        """Take note that clients answer an exchange."""
        task = self._tasks[method]
        self._bar.start_task(task)
        self._bar.update(task, remark=f"{stage}: {num_answered} of {num_asked}")
        if not self._bar.tasks[task].completed:
            self._say(f"{method_label(method)}: {stage}, {num_asked} to answer")

    def select(self, method: str, _server_round: int) -> None:
        """Take note that a round's clients are selected."""
        task = self._tasks[method]
        self._bar.start_task(task)
        self._bar.update(task, advance=1, remark="")
        self._say(f"{method_label(method)} selects")

    def _say(self, sentence: str) -> None:
        if sentence != self._last and not self._bar.console.is_terminal:
            self._bar.console.print(sentence, highlight=False)
        self._last = sentence


@contextmanager
def study_progress(console: Console, settings: StudySettings) -> Iterator[StudyProgress]:
    """Show how far a study of selection is.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it.
    settings : StudySettings
        What is studied.

    Yields
    ------
    StudyProgress
        To be told what the study does.

    Examples
    --------
    >>> with study_progress(Console(quiet=True), StudySettings(num_rounds=1)) as progress:
    ...     progress.select("random", 1)
    """
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
        TextColumn("left  {task.fields[remark]}"),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        yield StudyProgress(bar, settings.num_rounds)
