"""`python apps/paper`: the tables and figures of the paper, one command each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, cast

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.cli import run_application
from dubhe_flwr.cli.arguments import names, numbers, writable_folder
from dubhe_flwr.report.style import require_matplotlib
from reproduction import CellStore, Options, Resources
from reproduction.options import Scale

__all__ = ["app", "main"]

_EPILOG: Final = (
    "Example: [bold]python apps/paper {name} --scale full --data-dir data "
    "--out results/paper[/bold]"
)
_EXPERIMENTS: Final = {
    "motivation": "Accuracy and class proportions of random selection under skew.",
    "curves": "Accuracy over the rounds of each way of selecting, and the terms of the bound.",
    "averages": "Accuracy over the last rounds in the federations of Table 1.",
    "femnist": "Accuracy and class proportions on the letters of FEMNIST.",
    "unbiasedness": "Distance of the selected data from uniform for K = 10 ... 1000.",
    "table2": "Distance and accuracy for H tries; with --datasets none the distance alone.",
    "registry": "Clients of each category, and the class proportions that come of them.",
    "overhead": "Time and size of encryption, messages of the protocol, time of selection.",
    "ablation": "Past the paper: every option alone and together, by K, skew and classes.",
}

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Reproduce the paper: one command for each table or figure, and all.",
    epilog="Example, in a minute: [bold]python apps/paper registry[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    suggest_commands=False,
)


def _command(name: str, experiments: Sequence[str]) -> Callable[..., None]:
    def run(
        *,
        scale: Annotated[
            str, typer.Option(help="full: the paper's sizes; small: all of it in minutes.")
        ] = "small",
        data_dir: Annotated[
            str | None,
            typer.Option(help="Folder of the data sets.", show_default="the user's cache"),
        ] = None,
        device: Annotated[str, typer.Option(help="Where to train: auto, cpu or cuda.")] = "auto",
        cohort: Annotated[
            str, typer.Option(help="Train clients together: on, off, or auto (on a GPU).")
        ] = Resources.cohort,
        out: Annotated[
            Path | None,
            typer.Option(
                help="Folder to write to; what is finished there is not measured again.",
                show_default="results/reproduction-SCALE",
            ),
        ] = None,
        datasets: Annotated[
            str, typer.Option(help="Data sets to train on, separated by commas, or none.")
        ] = ",".join(Options.datasets),
        seeds: Annotated[
            str | None,
            typer.Option(
                help="Seeds, separated by commas.", show_default="0, or 0,1,2 where cheap"
            ),
        ] = None,
        tries: Annotated[
            str | None, typer.Option(help="Values of H in table2.", show_default="the paper's")
        ] = None,
        num_rounds: Annotated[
            int | None,
            typer.Option(
                "--num-rounds", "--rounds", help="Rounds of each training.", show_default="by scale"
            ),
        ] = None,
        norm: Annotated[
            str, typer.Option(help="Normalisation of ResNet18: batch or group.")
        ] = Options.norm,
        precision: Annotated[
            str, typer.Option(help="Numbers of the training: float32 or bfloat16.")
        ] = Options.precision,
        report_only: Annotated[
            bool, typer.Option("--report-only", help="Measure nothing; show what is finished.")
        ] = False,
    ) -> None:
        options = Options(
            scale=cast("Scale", scale),
            datasets=() if datasets.lower() == "none" else names(datasets.upper()),
            seeds=() if seeds is None else numbers("seeds", seeds, int),
            tries=() if tries is None else numbers("tries", tries, int),
            num_rounds=num_rounds,
            norm=norm,
            precision=precision,
        )
        folder = writable_folder(out or Path("results") / f"reproduction-{scale}")
        resources = Resources(data_dir, device, cohort)
        _run(name, experiments, options, folder, None if report_only else resources)

    return run


def _run(
    name: str,
    experiments: Sequence[str],
    options: Options,
    folder: Path,
    resources: Resources | None,
) -> None:
    """Measure what is not finished, unless there are no resources; show what is."""
    require_matplotlib()
    # These import Flower and take a while.
    from reproduction.catalogue import (  # noqa: PLC0415
        EXPERIMENTS,
        page,
        remarks,
        sections,
    )
    from reproduction.running import run_cells  # noqa: PLC0415

    console = Console()
    store = CellStore(folder / "cells")
    cells = [cell for experiment in experiments for cell in EXPERIMENTS[experiment].cells(options)]
    if resources is None:
        finished, missing = store.load_all(cells), list[str]()
    else:
        try:
            finished, missing = run_cells(
                cells,
                store,
                console,
                resources=resources,
                skip_missing_data=len(experiments) > 1,
            )
        except KeyboardInterrupt:
            console.print("Stopped; the same command goes on after what is finished.")
            raise
    made = sections(experiments, options, finished)
    said = [*remarks(experiments, options, finished), *missing]
    for section in made:
        console.print(f"\n[bold]{escape(section.title)}[/bold]", highlight=False)
        for table in section.tables:
            console.print(table.for_terminal())
        for drawn in section.pictures:
            target = folder / "figures" / f"{drawn.name}.png"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(drawn.png)
    for sentence in said:
        console.print(escape(sentence), highlight=False, soft_wrap=True)
    report = folder / f"{name}.html"
    report.write_text(page(made, options, finished, said), encoding="utf-8")
    console.print(f"The page is {escape(str(report))}.", highlight=False, soft_wrap=True)


for _name, _help in _EXPERIMENTS.items():
    app.command(_name, help=_help, epilog=_EPILOG.format(name=_name))(_command(_name, (_name,)))
app.command(
    "all",
    help="All of these; what lacks its data set is left out.",
    epilog=_EPILOG.format(name="all"),
)(_command("all", tuple(_EXPERIMENTS)))


def main() -> None:
    """Run the command line."""
    run_application(app)
