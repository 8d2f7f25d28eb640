"""One progress bar over all rounds of all methods."""

from logging import WARNING
from types import TracebackType
from typing import Self

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

__all__ = ["CompareProgress"]


class CompareProgress:
    """Shows how far a comparison is, and keeps Flower's log to its warnings meanwhile.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it.
    settings : CompareSettings
        What is compared.
    """

    def __init__(self, console: Console, settings: CompareSettings) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds  {task.fields[accuracy]} "),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._task = self._bar.add_task(
            "preparing",
            total=len(settings.methods) * settings.num_rounds,
            accuracy="",
        )
        self._quiet = flower_log_level(WARNING)

    def __enter__(self) -> Self:
        self._quiet.__enter__()
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()
        self._quiet.__exit__(kind, error, traceback)

    def update(self, method: str, server_round: int, accuracy: float) -> None:
        """Take note of an evaluation.

        Parameters
        ----------
        method : str
            The method that is at work.
        server_round : int
            Its round; 0 is the initial model.
        accuracy : float
            What the model reaches after it.
        """
        self._bar.update(
            self._task,
            advance=1 if server_round else 0,
            description=f"[bold]{method_label(method)}",
            accuracy=f"accuracy {accuracy:.1%}",
        )
