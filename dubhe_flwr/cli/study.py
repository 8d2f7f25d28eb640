"""`dubhe study`: select clients without training a model."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.cli.options import command, writable_file
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.experiments import StudySettings
from dubhe_flwr.experiments.progress import study_progress
from dubhe_flwr.experiments.study import study as run
from dubhe_flwr.report import save_study_figure
from dubhe_flwr.report.picture import require_matplotlib
from dubhe_flwr.report.terminal import study_sentence, study_table

__all__ = ["EPILOG", "study"]

EPILOG: Final = (
    "Example: [bold]dubhe study --determination grouped --json results/grouped.json "
    "--figure results/grouped.png[/bold]"
)


def _study(
    settings: StudySettings,
    *,
    json: Annotated[Path | None, typer.Option(help="File to write the results to.")] = None,
    figure: Annotated[Path | None, typer.Option(help="PNG file to draw them to.")] = None,
) -> None:
    """Select without training, and show how balanced and how varied the selected data is.

    Random selection and a greedy oracle select in the same federation.
    """
    if figure is not None:
        if figure.suffix != ".png":
            raise SettingsError(f"figure={str(figure)!r} has to end in .png.")
        require_matplotlib()
    writable_file(json)
    writable_file(figure)
    console = Console()
    with study_progress(console, settings) as progress:
        results = run(settings, progress.select, progress.answer)
    if json is not None:
        results.save(json)
    if figure is not None:
        save_study_figure(results, figure)
    console.print(study_table(results).for_terminal())
    console.print(study_sentence(results), highlight=False)
    if written := [escape(str(path)) for path in (json, figure) if path is not None]:
        console.print(f"Written: {', '.join(written)}.", highlight=False)


study = command(_study, StudySettings)
