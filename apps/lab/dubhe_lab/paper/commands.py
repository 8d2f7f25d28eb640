"""`dubhe paper`: commands for tables and figures of the paper, and for experiments beyond it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_lab.cli.application import new_application
from dubhe_lab.cli.options import command, writable_folder
from dubhe_lab.paper import (
    digits,
    epochs,
    instead,
    leaderboard,
    letters,
    natural,
    overhead,
    registry,
    table2,
    unbiasedness,
    verdict,
    when,
)
from dubhe_lab.paper.cells import CellStore, run_cells
from dubhe_lab.paper.experiment import Experiment, PaperSettings, Section

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "femnist": letters.EXPERIMENT,
    "unbiasedness": unbiasedness.EXPERIMENT,
    "table2": table2.EXPERIMENT,
    "registry": registry.EXPERIMENT,
    "overhead": overhead.EXPERIMENT,
    "digits": digits.EXPERIMENT,
    "leaderboard": leaderboard.EXPERIMENT,
    "verdict": verdict.EXPERIMENT,
    "natural": natural.EXPERIMENT,
    "instead": instead.EXPERIMENT,
    "when": when.EXPERIMENT,
    "epochs": epochs.EXPERIMENT,
}
"""The paper's experiments in its order, then the experiments beyond it."""

_SMALL: Final = (
    "Small scale: all trainings take a few rounds with a small network, 8 x 8 digits and few "
    "clients. They show that everything runs; do not compare their accuracies with the paper's."
)
_EPILOG: Final = (
    "Example: [bold]dubhe paper {name} --scale full --data-dir data --out results/paper[/bold]"
)

app = new_application(
    help="Reproduce tables and figures of the paper, and go beyond it.",
    epilog="Example, in a minute: [bold]dubhe paper registry[/bold]",
    no_args_is_help=True,
)


def _reproduce(
    name: str,
    settings: PaperSettings,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to; finished measurements in it are not repeated.",
            show_default="results/reproduction-SCALE",
        ),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Measure nothing; show finished results.")
    ] = False,
) -> None:
    """Run the missing measurements, and show all finished ones."""
    folder = writable_folder(out or Path("results") / f"reproduction-{settings.scale}")
    console = Console()
    store, cells = CellStore(folder / "cells"), EXPERIMENTS[name].cells(settings)
    if report_only:
        finished = store.load_all(cells)
    else:
        try:
            finished = run_cells(cells, store, console, machine=settings.machine)
        except KeyboardInterrupt:
            console.print("Stopped. Run the same command again to continue.")
            raise typer.Exit(130) from None
    found = {key: content["result"] for key, content in finished.items()}
    if (section := EXPERIMENTS[name].section(settings, found)) is not None:
        _show(section, console, folder / "figures")
    if not settings.is_full:
        console.print(_SMALL, highlight=False)
    if missing := len(cells) - len(finished):
        console.print(
            f"Not measured yet: {missing} of {len(cells)} measurements; run the command without "
            "--report-only to continue.",
            highlight=False,
        )


def _show(section: Section, console: Console, folder: Path) -> None:
    """Print a section, and write its pictures to a folder."""
    console.print(f"\n[bold]{escape(section.title)}[/bold]", highlight=False)
    for paragraph in section.paragraphs:
        console.print(escape(paragraph), highlight=False)
    for table in section.tables:
        console.print(table.for_terminal())
    for drawn in section.pictures:
        drawn.save(folder)
        path = folder / f"{drawn.name}.png"
        console.print(escape(f"{path}: {drawn.caption}"), highlight=False, soft_wrap=True)


for _name, _experiment in EXPERIMENTS.items():
    app.command(_name, help=_experiment.about, epilog=_EPILOG.format(name=_name))(
        command(partial(_reproduce, _name), PaperSettings)
    )
