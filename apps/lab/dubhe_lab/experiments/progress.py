"""The progress of an experiment: one bar on a terminal, and lines in a file or a pipe."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import WARNING, getLogger
from typing import Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dubhe_flwr.adapter.exchanges import counted
from dubhe_lab.report.methods import method_label

_LINES: Final = 5
"""Lines per method in a file or a pipe, after one for its beginning."""
_SPEED_OVER_SECONDS: Final = 1800

OnRound: TypeAlias = Callable[[str, int, float | None], None]
"""Gets the method, the round, and the accuracy if the model was evaluated.

Round 0 is the beginning: no client is selected yet.
"""


class Progress:
    """A bar over parts of known sizes, such as the rounds of each method."""

    def __init__(self, bar: Bar, total: float) -> None:
        self._bar = bar
        self._task = bar.add_task("preparing", total=total or None, remark="")
        self._begun = 0.0

    def begin(self, name: str, size: float) -> None:
        """Show that a part begins; earlier parts are done, whatever they reported."""
        self._bar.update(self._task, completed=self._begun, description=name)
        self._begun += size

    def advance(self, share: float, remark: str | None = None) -> None:
        """Show that more of the part is done; without a remark, the last one stays."""
        if remark is not None:
            self._bar.update(self._task, remark=remark)
        self._bar.advance(self._task, share)

    def end(self) -> None:
        """Show that all parts that have begun are done."""
        self._bar.update(self._task, completed=self._begun)

    def say(self, sentence: str) -> None:
        """Write a line to a file or a pipe."""
        if not self._bar.console.is_terminal:
            self._bar.console.print(sentence, highlight=False)


@contextmanager
def progress_of(console: Console, total: float) -> Iterator[Progress]:
    """Show progress towards a total, with Flower's log limited to warnings."""
    bar = Bar(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left  {task.fields[remark]}"),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=_SPEED_OVER_SECONDS,
    )
    with flower_log_level(WARNING), bar:
        progress = Progress(bar, total)
        yield progress
        progress.end()


@contextmanager
def rounds_progress(
    console: Console, name: str, methods: Sequence[str], num_rounds: int
) -> Iterator[OnRound]:
    """Show the progress of a comparison or a study; yields its `on_round`."""
    told = {*range(0, num_rounds, -(-num_rounds // _LINES)), num_rounds}
    with progress_of(console, len(methods) * num_rounds) as progress:
        number = counted(len(methods), "method", "methods")
        progress.say(f"{name}: {number}, {counted(num_rounds, 'round', 'rounds')} each")

        def update(method: str, server_round: int, accuracy: float | None) -> None:
            label = method_label(method)
            remark = None if accuracy is None else f"accuracy {accuracy:.1%}"
            if server_round == 0:
                progress.begin(label, num_rounds)
            progress.advance(min(server_round, 1), remark=remark)
            if server_round in told:
                line = f"{label}: round {server_round} of {num_rounds}"
                progress.say("  ".join(filter(None, [line, remark])))

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
