"""`dubhe study`: whether Dubhe would help, in your own federation or in a generated one."""

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Final

import click
import typer
from click.core import ParameterSource
from rich.console import Console

from dubhe_flwr.errors import SettingsError
from dubhe_lab.cli.options import command, writable_file
from dubhe_lab.data import LabelCounts, load_label_counts
from dubhe_lab.experiments import StudySettings
from dubhe_lab.experiments.my_federation import study as run
from dubhe_lab.experiments.settings import RULES, SelectionSettings
from dubhe_lab.report.results import write_json

EPILOG: Final = (
    "Example: [bold]dubhe study --label-counts counts.csv --client-column site "
    "--num-participants 10[/bold]; [bold]dubhe study --emd 1.0 --num-clients 200[/bold]"
)

_OF_TABLES: Final = ("no_heading", "client_column", "label_column", "classes", "equal_weights")
_OF_DRAWN: Final = ("num_clients", "num_samples", "rho", "emd", "num_classes")


def _study(
    settings: StudySettings,
    *,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
    label_counts: Annotated[
        Path | None,
        typer.Option(
            help="Your federation's table (CSV, TSV, Parquet or NPY), one row per client."
        ),
    ] = None,
    no_heading: Annotated[
        bool, typer.Option("--no-heading", help="Your table has no header row.")
    ] = False,
    client_column: Annotated[
        str | None, typer.Option(help="Your table's column of client names.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Your table's column of labels, if each row is one sample.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Your table's columns of counts, FIRST..LAST.")
    ] = None,
    equal_weights: Annotated[
        bool,
        typer.Option("--equal-weights", help="Weight all clients equally, whatever their sizes."),
    ] = False,
) -> None:
    """Select clients without training, and say whether Dubhe would help.

    Compares Dubhe with random selection and a greedy oracle in the federation of --label-counts, or
    else in a generated one.
    """
    _check_rule(settings.selection)
    writable_file(json)
    if label_counts is None:
        _refuse_given(_OF_TABLES, "is for --label-counts; leave it out in generated federations.")
        table = _drawn(settings)
    else:
        _refuse_given(_OF_DRAWN, "is for generated federations; leave it out with --label-counts.")
        if json is not None and json.resolve() == label_counts.resolve():
            raise SettingsError(f"{json} holds the label counts; name another file with --json.")
        table = load_label_counts(
            label_counts,
            heading=not no_heading,
            client_column=client_column,
            label_column=label_column,
            classes=classes,
        )
    console = Console()
    console.print(f"{table.summary}\n{table.extremes}", highlight=False, markup=False)
    with console.status("Selecting clients"):
        found = run(
            table,
            **settings.selection.arguments(),
            equal_weights=equal_weights,
            seed=settings.federation.seed,
        )
    console.print(found.findings(), highlight=False)
    if json is not None:
        write_json(json, found.to_dict())
        console.print(f"Written: {json}.", highlight=False, markup=False)


def _drawn(settings: StudySettings) -> LabelCounts:
    """Draw a federation with the skew of the settings."""
    counts = settings.federation.draw("synthetic", settings.classes).label_counts
    clients, classes = (tuple(map(str, range(number))) for number in counts.shape)
    return LabelCounts(counts, classes, clients)


def _check_rule(selection: SelectionSettings) -> None:
    """Refuse settings that belong to a rule that was not chosen."""
    usual = SelectionSettings()
    others = (own for name, of in RULES.items() if name != selection.rule for own in fields(of))
    for other in others:
        own = getattr(usual, other.name, None)  # the rule's noise is not an option
        if getattr(selection, other.name, None) != own:
            raise SettingsError(
                f"{other.name} does not apply to rule={selection.rule}; leave one of them out."
            )


def _refuse_given(names: Collection[str], why: str) -> None:
    """Refuse options that would be ignored."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise SettingsError(f"{option.opts[0]} {why}")


study = command(_study, StudySettings, without=("num_rounds", "encrypted", "generator", "target"))
